use super::*;

#[test]
fn the_defaults_are_those_of_the_documentation() {
    let config = from_environment(&[]).unwrap();
    assert_eq!(config.run_mode, RunMode::Both);
    assert_eq!(config.cron.trigger_check_interval, Duration::from_secs(30));
    assert_eq!(config.cron.backend_heartbeat_timeout, Duration::from_secs(60));
    assert_eq!(config.cron.metrics_port, 9090);
    assert_eq!(config.dispatch.timeout, Duration::from_secs(5));
    assert_eq!(config.dispatch.retry.max_age, Duration::from_secs(86_400));
    assert_eq!(config.retention.delivered, Some(Duration::from_secs(7 * 86_400)));
    assert_eq!(config.retention.audit, None);
    assert!(config.callbacks.allowed_networks.is_empty());
    assert!(config.secret_key.is_none() && config.auth.jwt.issuer.is_none());
}

#[test]
fn durations_are_typed_with_their_unit() {
    for (text, expected) in [
        ("30s", Duration::from_secs(30)),
        ("1m30s", Duration::from_secs(90)),
        ("1m 30s", Duration::from_secs(90)),
        ("1500ms", Duration::from_millis(1500)),
    ] {
        let config = from_environment(&[("PFY_CRON_TRIGGER_CHECK_INTERVAL", text)]).unwrap();
        assert_eq!(config.cron.trigger_check_interval, expected, "{text}");
    }
    let config = from_environment(&[("PFY_RETENTION_LOG", "7d")]).unwrap();
    assert_eq!(config.retention.log, Some(Duration::from_secs(7 * 86_400)));
}

#[test]
fn a_duration_without_a_unit_is_refused_with_what_would_be_right() {
    for result in [
        from_environment(&[("PFY_CRON_TRIGGER_CHECK_INTERVAL", "30")]),
        from_file("cron:\n  trigger_check_interval: 30\n"),
    ] {
        let (key, reason) = only_problem(result);
        assert_eq!(key, "cron.trigger_check_interval");
        assert!(reason.contains("\"30\" is not a duration"), "{reason}");
        assert!(reason.contains("such as 30s, 1m30s or 500ms, from 1s to 1h"), "{reason}");
    }
}

#[test]
fn values_out_of_range_are_refused_at_their_edges() {
    for (variable, good, bad) in [
        ("PFY_CRON_TRIGGER_CHECK_INTERVAL", "1s", "999ms"),
        ("PFY_CRON_TRIGGER_CHECK_INTERVAL", "1h", "1h1s"),
        ("PFY_DISPATCH_RETRY_MULTIPLIER", "1", "0.99"),
        ("PFY_DISPATCH_RETRY_MULTIPLIER", "10", "NaN"),
        ("PFY_DISPATCH_CONCURRENCY", "1", "0"),
        ("PFY_CRON_METRICS_PORT", "65535", "65536"),
        ("PFY_CRON_METRICS_PORT", "0", "-1"),
        ("PFY_GRAPHQL_MAX_DEPTH", "100", "101"),
        ("PFY_RETENTION_DELIVERED", "0", "-1d"),
        ("PFY_RETENTION_BATCH", "10000", "10001"),
    ] {
        assert!(from_environment(&[(variable, good)]).is_ok(), "{variable}={good}");
        let (key, _) = only_problem(from_environment(&[(variable, bad)]));
        assert_eq!(layers::variable_of(&key), variable, "{variable}={bad}");
    }
}

#[test]
fn lists_come_from_the_file_as_lists_and_from_the_environment_with_commas() {
    let expected = ["10.1.0.0/16", "fd00::/8"];
    for config in [
        from_file("callbacks:\n  allowed_networks:\n    - 10.1.2.3/16\n    - fd00::/8\n"),
        from_environment(&[("PFY_CALLBACKS_ALLOWED_NETWORKS", "10.1.0.0/16, fd00::/8")]),
    ] {
        let networks = config.unwrap().callbacks.allowed_networks;
        assert_eq!(networks.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
    let (key, reason) =
        only_problem(from_environment(&[("PFY_CALLBACKS_ALLOWED_NETWORKS", "10.1.0.0/99")]));
    assert_eq!(key, "callbacks.allowed_networks");
    assert!(reason.contains("10.1.0.0/99"), "{reason}");
}

#[test]
fn a_lease_leaves_five_seconds_after_the_timeout() {
    let lease =
        |lease| from_environment(&[("PFY_DISPATCH_TIMEOUT", "30s"), ("PFY_DISPATCH_LEASE", lease)]);
    assert!(lease("35s").is_ok());
    let (key, reason) = only_problem(lease("34s"));
    assert_eq!(key, "dispatch.lease");
    assert!(reason.contains("35s"), "{reason}");
}

#[test]
fn the_longest_wait_is_not_below_the_first() {
    let (key, _) = only_problem(from_environment(&[("PFY_DISPATCH_RETRY_MAX", "1s")]));
    assert_eq!(key, "dispatch.retry.max");
}

#[test]
fn the_sqlite_path_is_decoded_once() {
    let url = DatabaseUrl::parse("sqlite:///var/a%20b+c&d=e.db?mode=rwc").unwrap();
    assert_eq!(url.sqlite_file(), Some(PathBuf::from("/var/a b+c&d=e.db")));
    assert_eq!(url.engine(), Engine::Sqlite);
}

#[test]
fn other_databases_and_incomplete_addresses_are_refused() {
    for url in ["mysql://a/b", "trigger-manager.db", "sqlite://", "postgres:", "sqlite:?mode=rwc"] {
        let (key, reason) = only_problem(from_environment(&[("PFY_DATABASE_URL", url)]));
        assert_eq!(key, "database_url", "{url}");
        assert!(reason.contains("write sqlite://"), "{reason}");
    }
}

#[test]
fn a_parameter_that_postgresql_s_driver_does_not_know_is_refused_without_its_value() {
    let read = |url: &str| DatabaseUrl::parse(url);
    let refused = read("postgres://u@h/d?pasword=hush").unwrap_err();
    assert!(refused.contains("\"pasword\" that is not known; known are sslmode"), "{refused}");
    assert!(!refused.contains("hush"), "{refused}");
    for fits in ["sslmode=require&application_name=a", "options[statement_timeout]=5s", "host=/run"]
    {
        assert!(read(&format!("postgres://u@h/d?{fits}")).is_ok(), "{fits}");
    }
}

#[test]
fn events_come_from_postgresql_alone_or_from_nowhere() {
    assert!(from_environment(&[]).unwrap().pg_source.database_url.is_none());
    let source = |url| from_environment(&[("PFY_PG_SOURCE_DATABASE_URL", url)]);
    let url = source("postgres://reader@customers/shop").unwrap().pg_source.database_url.unwrap();
    assert_eq!(url.engine(), Engine::Postgres);
    for bad in ["sqlite://shop.db", "customers/shop", "postgres:"] {
        let (key, reason) = only_problem(source(bad));
        assert_eq!(key, "pg_source.database_url", "{bad}");
        assert!(reason.contains("write postgres://"), "{reason}");
    }
}

#[test]
fn an_outside_issuer_needs_an_audience_and_a_safe_address() {
    let issuer = ("PFY_AUTH_JWT_ISSUER", "https://id.example.com/realm");
    let (key, _) = only_problem(from_environment(&[issuer]));
    assert_eq!(key, "auth.jwt.audience");
    let audience = ("PFY_AUTH_JWT_AUDIENCE", "triggers");
    let config = from_environment(&[issuer, audience]).unwrap();
    assert_eq!(config.auth.jwt.issuer.as_deref(), Some("https://id.example.com/realm"));
    let (key, _) = only_problem(from_environment(&[audience]));
    assert_eq!(key, "auth.jwt.audience");
    let plain = ("PFY_AUTH_JWT_ISSUER", "http://id.example.com");
    assert!(from_environment(&[plain, audience]).is_err());
    let local = ("PFY_AUTH_JWT_ISSUER", "http://127.0.0.1:9000");
    assert!(from_environment(&[local, audience]).is_ok());
}

#[test]
fn log_levels_are_checked_letter_by_letter() {
    for level in ["info", "off", "info,sqlx=warn", "warn, trigger_manager::executor=debug"] {
        assert!(from_environment(&[("PFY_LOG_LEVEL", level)]).is_ok(), "{level}");
    }
    for level in ["inof", "INFO", "sqlx=loud", "=info", "info,,warn", ""] {
        let (key, _) = only_problem(from_environment(&[("PFY_LOG_LEVEL", level)]));
        assert_eq!(key, "log.level", "{level}");
    }
}

#[test]
fn origins_are_kept_as_browsers_send_them() {
    let origins = |list| from_environment(&[("PFY_CORS_ALLOWED_ORIGINS", list)]);
    let config = origins("https://Console.example.com:443/, http://localhost:5173").unwrap();
    let expected = ["https://console.example.com", "http://localhost:5173"];
    assert_eq!(config.cors.allowed_origins, expected);
    for bad in ["*", "console.example.com", "https://a.example.com/path", "file:///x"] {
        let (key, _) = only_problem(origins(bad));
        assert_eq!(key, "cors.allowed_origins", "{bad}");
    }
}

#[test]
fn what_the_compose_file_passes_on_empty_is_as_if_it_were_not_set() {
    const COMPOSE: &str = include_str!("../../../compose.yml");
    let empty: Vec<(&str, &str)> = COMPOSE
        .lines()
        .filter(|line| line.ends_with(":-}"))
        .filter_map(|line| Some((line.trim().split_once(':')?.0, "")))
        .collect();
    for name in ["PFY_AUTH_BOOTSTRAP_TOKEN", "PFY_CALLBACKS_ALLOWED_NETWORKS"] {
        assert!(empty.contains(&(name, "")), "{empty:?}");
    }
    let config = from_environment(&empty).unwrap();
    assert!(config.auth.bootstrap_token.is_none());
    assert!(config.callbacks.allowed_networks.is_empty());
}
