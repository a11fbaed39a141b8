use super::*;

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
    for url in [
        "sqlite::memory:",
        "sqlite://%3Amemory%3A",
        "sqlite://x.db?mode=memory",
        "sqlite://x.db?mode=%6Demory",
        "sqlite://x.db?mode=ro",
        "sqlite://x.db?immutable=true",
    ] {
        let refused = from_environment(&[("PFY_DATABASE_URL", url)]).unwrap_err();
        assert!(refused.to_string().contains("a file that can be written"), "{url}: {refused}");
    }
}

#[test]
fn secrets_are_shown_nowhere() {
    let secrets =
        ["a-passphrase-of-mine", "pfy_bootstrap-token-0123", "hunter2", "hunter3", "hunter4"];
    let config = from_environment(&[
        ("PFY_SECRET_KEY", secrets[0]),
        ("PFY_AUTH_BOOTSTRAP_TOKEN", secrets[1]),
        ("PFY_DATABASE_URL", "postgres://u:hunter2@db/pfy?sslmode=require&password=hunter3"),
        ("PFY_PG_SOURCE_DATABASE_URL", "postgres://reader:hunter4@customers/shop"),
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
    assert_eq!(again.cron.zone(None).unwrap().name(), "Europe/Berlin");
    assert_eq!(again.dispatch.retry.initial, Duration::from_secs(90));
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
