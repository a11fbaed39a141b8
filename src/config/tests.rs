use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use secrecy::ExposeSecret;

use super::*;

fn from_environment(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let owned: Vec<_> = variables.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    Config::load(None, owned.into_iter())
}

/// A file of its own for one test, gone when the test is over.
struct TestFile(PathBuf);

impl TestFile {
    fn new(text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pfy-{}.yml", uuid::Uuid::now_v7()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn from_file(text: &str) -> Result<Config, ConfigError> {
    let file = TestFile::new(text);
    Config::load(Some(&file.0), std::iter::empty())
}

/// The single problem of a configuration that must not load: its key and its reason.
fn only_problem(result: Result<Config, ConfigError>) -> (String, String) {
    let error = result.unwrap_err();
    assert_eq!(error.problems().len(), 1, "{error}");
    let Problem { key, reason, .. } = error.problems()[0].clone();
    (key, reason)
}

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
fn the_struct_and_the_default_file_have_the_same_keys() {
    let config = from_environment(&[]).unwrap();
    let of_struct: BTreeSet<String> = show::flat(&config).into_keys().collect();
    let of_file: BTreeSet<String> = Layers::defaults().unwrap().defaults.into_keys().collect();
    assert_eq!(of_struct, of_file);
}

#[test]
fn each_key_of_the_default_file_has_a_comment_of_one_line() {
    let keys = Layers::defaults().unwrap().defaults;
    let lines: Vec<_> = show::lines(layers::DEFAULTS).collect();
    let mut commented = 0;
    for pair in lines.windows(2) {
        let [(before, _), (line, Some(key))] = pair else { continue };
        if keys.contains_key(key) {
            assert!(before.trim_start().starts_with("# "), "{key} has no comment");
            assert!(before.ends_with('.'), "the comment of {key} is no sentence");
            assert_eq!(
                before.len() - before.trim_start().len(),
                line.len() - line.trim_start().len(),
                "the comment of {key} is out of line"
            );
            commented += 1;
        }
    }
    assert_eq!(commented, keys.len());
}

#[test]
fn no_two_keys_have_the_same_variable() {
    let keys = Layers::defaults().unwrap().defaults;
    let variables: BTreeSet<String> = keys.keys().map(|key| layers::variable_of(key)).collect();
    assert_eq!(variables.len(), keys.len());
    assert!(variables.contains("PFY_CRON_TRIGGER_CHECK_INTERVAL"));
}

#[test]
fn the_file_wins_over_the_defaults_and_the_environment_over_the_file() {
    let file = TestFile::new("cron:\n  metrics_port: 9100\n  time_zone: Asia/Bangkok\n");
    let variables = [("PFY_CRON_METRICS_PORT".to_owned(), "9200".to_owned())];
    let config = Config::load(Some(&file.0), variables.into_iter()).unwrap();
    assert_eq!(config.cron.metrics_port, 9200);
    assert_eq!(config.cron.zone().iana_name(), Some("Asia/Bangkok"));
    assert_eq!(config.cron.max_occurrences_per_window, 60);
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
    ] {
        assert!(from_environment(&[(variable, good)]).is_ok(), "{variable}={good}");
        let (key, _) = only_problem(from_environment(&[(variable, bad)]));
        assert_eq!(layers::variable_of(&key), variable, "{variable}={bad}");
    }
}

#[test]
fn an_unknown_key_of_the_file_is_refused_and_its_neighbours_are_named() {
    let (key, reason) = only_problem(from_file("cron:\n  check_interval: 30s\n"));
    assert_eq!(key, "cron.check_interval");
    assert!(reason.contains("cron.trigger_check_interval"), "{reason}");
    let (key, _) = only_problem(from_file("crom:\n  metrics_port: 1\n"));
    assert_eq!(key, "crom.metrics_port");
    let (key, reason) = only_problem(from_file("cron: 30s\n"));
    assert_eq!(key, "cron");
    assert!(reason.contains("group of settings"), "{reason}");
    let (key, _) = only_problem(from_file("run_mode:\n  both: true\n"));
    assert_eq!(key, "run_mode.both");
}

#[test]
fn an_unknown_pfy_variable_is_refused_and_others_are_not_looked_at() {
    let (key, _) = only_problem(from_environment(&[("PFY_CRON_METRIC_PORT", "1")]));
    assert_eq!(key, "PFY_CRON_METRIC_PORT");
    let passed = [("PFY_CONFIG", "x.yml"), ("PFY_TEST_DATABASE_URL", "x"), ("PATH", "/bin")];
    assert!(from_environment(&passed).is_ok());
    assert!(from_environment(&[("PFY_TESTS", "1")]).is_err());
}

#[test]
fn one_start_shows_every_problem() {
    let error = from_environment(&[
        ("PFY_RUN_MODE", "all"),
        ("PFY_HTTP_ADDR", "localhost:8080"),
        ("PFY_LOG_LEVEL", "inof"),
        ("PFY_NOPE", "1"),
    ])
    .unwrap_err();
    let keys: BTreeSet<&str> = error.problems().iter().map(|p| p.key.as_str()).collect();
    assert_eq!(keys, BTreeSet::from(["PFY_NOPE", "http_addr", "log.level", "run_mode"]));
    let shown = error.to_string();
    assert!(shown.contains("run_mode (from PFY_RUN_MODE): \"all\" is no mode"), "{shown}");
}

#[test]
fn an_empty_group_and_a_file_of_comments_change_nothing() {
    for text in ["", "# nothing yet\n", "cron:\n# metrics_port: 1\nlog:\n  format: text\n"] {
        assert!(from_file(text).is_ok(), "{text:?}");
    }
}

#[test]
fn a_file_that_is_missing_or_no_yaml_is_refused_with_its_name() {
    let missing = Path::new("no-such-file.yml");
    let error = Config::load(Some(missing), std::iter::empty()).unwrap_err();
    assert!(error.to_string().contains("no-such-file.yml"), "{error}");
    for text in ["cron: [", "- a\n- b\n", "just text", "run_mode: api\nrun_mode: both\n"] {
        assert!(from_file(text).is_err(), "{text:?}");
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
fn postgresql_needs_a_secret_key() {
    let url = ("PFY_DATABASE_URL", "postgres://pfy:hunter2hunter2@db/pfy");
    let (key, reason) = only_problem(from_environment(&[url]));
    assert_eq!(key, "secret_key");
    assert!(reason.contains("PostgreSQL"), "{reason}");
    let (key, reason) = only_problem(from_environment(&[url, ("PFY_SECRET_KEY", "short")]));
    assert_eq!(key, "secret_key");
    assert!(reason.contains("too short"), "{reason}");
    let config = from_environment(&[url, ("PFY_SECRET_KEY", "correct horse battery")]).unwrap();
    assert!(matches!(config.secret_key_source(), SecretKeySource::Given(_)));
}

#[test]
fn without_a_secret_key_its_file_stands_next_to_the_sqlite_file() {
    for (url, expected) in [
        ("sqlite://data/trigger-manager.db?mode=rwc", "data/secret.key"),
        ("sqlite:///var/lib/pfy/a%20b+c.db", "/var/lib/pfy/secret.key"),
        ("sqlite:here.db", "secret.key"),
    ] {
        let config = from_environment(&[("PFY_DATABASE_URL", url)]).unwrap();
        match config.secret_key_source() {
            SecretKeySource::File(path) => assert_eq!(path, Path::new(expected)),
            other => panic!("{url}: {other:?}"),
        }
    }
    for url in ["sqlite::memory:", "sqlite://x.db?mode=memory"] {
        let config = from_environment(&[("PFY_DATABASE_URL", url)]).unwrap();
        assert!(matches!(config.secret_key_source(), SecretKeySource::Ephemeral), "{url}");
    }
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
fn secrets_are_shown_nowhere() {
    let secrets = ["a-passphrase-of-mine", "pfy_bootstrap-token-0123", "hunter2", "hunter3"];
    let config = from_environment(&[
        ("PFY_SECRET_KEY", secrets[0]),
        ("PFY_AUTH_BOOTSTRAP_TOKEN", secrets[1]),
        ("PFY_DATABASE_URL", "postgres://u:hunter2@db/pfy?sslmode=require&password=hunter3"),
    ])
    .unwrap();
    assert_eq!(config.secret_key.as_ref().unwrap().expose_secret(), secrets[0]);
    let shown = format!("{config:?}\n{config:#?}\n{}", config.to_yaml_redacted());
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    let yaml = config.to_yaml_redacted();
    assert!(yaml.contains("secret_key: \"***\""), "{yaml}");
    assert!(yaml.contains("sslmode=require"), "{yaml}");
}

#[test]
fn errors_do_not_repeat_secrets() {
    let error = from_environment(&[
        ("PFY_SECRET_KEY", "too-short-key"),
        ("PFY_AUTH_BOOTSTRAP_TOKEN", "short-token"),
        ("PFY_DATABASE_URL", "mysql://u:hunter2@db/pfy"),
    ])
    .unwrap_err();
    assert_eq!(error.problems().len(), 3);
    let shown = format!("{error} {error:?}");
    for secret in ["too-short-key", "short-token", "hunter2"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[test]
fn a_number_as_secret_asks_for_quotes() {
    let (key, reason) = only_problem(from_file("secret_key: 00123456789012345678\n"));
    assert_eq!(key, "secret_key");
    assert!(reason.contains("quotes"), "{reason}");
    assert!(from_file("secret_key: \"00123456789012345678\"\n").is_ok());
}

#[test]
fn what_is_shown_is_a_configuration_file_with_the_same_meaning() {
    let config = from_environment(&[
        ("PFY_RUN_MODE", "executor"),
        ("PFY_CRON_TIME_ZONE", "europe/berlin"),
        ("PFY_DISPATCH_RETRY_INITIAL", "1m30s"),
        ("PFY_CALLBACKS_ALLOWED_NETWORKS", "10.0.0.0/8,fd00::/8"),
        ("PFY_LOG_LEVEL", "info,sqlx=warn"),
        ("PFY_PUBLIC_URL", "https://triggers.example.com/base"),
        ("PFY_GRAPHQL_GRAPHIQL", "false"),
    ])
    .unwrap();
    let yaml = config.to_yaml_redacted();
    let again = from_file(&yaml).unwrap();
    assert_eq!(again.to_yaml_redacted(), yaml);
    assert_eq!(show::flat(&again), show::flat(&config));
    assert_eq!(again.run_mode, RunMode::Executor);
    assert_eq!(again.cron.zone().iana_name(), Some("Europe/Berlin"));
    assert_eq!(again.dispatch.retry.initial, Duration::from_secs(90));
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
fn a_bootstrap_token_fits_into_a_header() {
    let token = |token| from_environment(&[("PFY_AUTH_BOOTSTRAP_TOKEN", token)]);
    assert!(token("pfy_0123456789abcdef").is_ok());
    for bad in ["pfy_0123456789abcde", "pfy_0123456789abcdef with blanks", "pfy_0123456789abcdéfg"]
    {
        assert!(token(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_argument_wins_over_the_variable_and_the_variable_over_the_usual_file() {
    let usual = TestFile::new("");
    let (argument, named) = (Path::new("argument.yml"), Path::new("named.yml"));
    let variable = |path: &str| [("PFY_CONFIG".to_owned(), path.to_owned())];
    let chosen = |argument, path| choose_file(argument, &variable(path), &usual.0);
    assert_eq!(chosen(Some(argument), "named.yml").as_deref(), Some(argument));
    assert_eq!(chosen(None, "named.yml").as_deref(), Some(named));
    assert_eq!(chosen(None, "").as_deref(), Some(usual.0.as_path()));
    assert_eq!(choose_file(None, &[], Path::new("no-such-file.yml")), None);
}

#[cfg(unix)]
#[test]
fn a_variable_of_ours_must_be_text_and_others_may_be_anything() {
    use std::os::unix::ffi::OsStringExt;
    let bytes = || OsString::from_vec(vec![0xff]);
    assert_eq!(own_variable("OTHER".into(), bytes()), Ok(None));
    assert_eq!(own_variable(bytes(), bytes()), Ok(None));
    let error = own_variable("PFY_LOG_LEVEL".into(), bytes()).unwrap_err();
    assert!(error.to_string().contains("PFY_LOG_LEVEL: is not UTF-8"), "{error}");
}
