use super::*;

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
    assert_eq!(config.cron.zone(None).unwrap().name(), "Asia/Bangkok");
    assert_eq!(config.cron.max_occurrences_per_window, 60);
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
    let error = from_file("run_mode: [api]\n").unwrap_err().to_string();
    assert!(error.contains("run_mode") && error.contains("is a list; write one value"), "{error}");
    for text in ["cron: [", "- a\n- b\n", "just text", "run_mode: api\nrun_mode: both\n"] {
        assert!(from_file(text).is_err(), "{text:?}");
    }
}

#[test]
fn the_argument_wins_over_the_variable_and_the_variable_over_the_usual_file() {
    let usual = TestFile::new("");
    let (argument, named) = (Path::new("argument.yml"), Path::new("named.yml"));
    let variable = |path: &str| [("PFY_CONFIG".to_owned(), path.to_owned())];
    let chosen = |argument, path| choose_file(argument, &variable(path), &usual.0).unwrap();
    assert_eq!(chosen(Some(argument), "named.yml").as_deref(), Some(argument));
    assert_eq!(chosen(None, "named.yml").as_deref(), Some(named));
    assert_eq!(chosen(None, "").as_deref(), Some(usual.0.as_path()));
    assert_eq!(choose_file(None, &[], Path::new("no-such-file.yml")), Ok(None));
    let other = usual.0.with_extension("yaml");
    std::fs::rename(&usual.0, &other).unwrap();
    assert_eq!(chosen(None, "").as_deref(), Some(other.as_path()), "the other spelling");
    std::fs::copy(&other, &usual.0).unwrap();
    let (_, reason) = only_problem_of(choose_file(None, &[], &usual.0).unwrap_err());
    assert!(reason.contains("only one of them is read"), "{reason}");
    assert_eq!(chosen(None, "named.yml").as_deref(), Some(named), "one that is named is meant");
    std::fs::remove_file(&other).unwrap();
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
