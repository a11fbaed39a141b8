use super::*;

#[test]
fn the_defaults_call_the_real_platform() {
    let line = from_environment(&[]).unwrap().line;
    assert_eq!(line.api_base.as_str(), "https://api.line.me/");
    assert_eq!(line.rate_limit, 2000);
    assert_eq!(line.timeout, Duration::from_secs(10));
    assert_eq!(line.monthly_limit_pause, Duration::from_secs(3600));
    assert_eq!(line.unauthorized_pause, Duration::from_secs(300));
}

#[test]
fn the_base_is_a_plain_url_and_may_have_a_path() {
    let base = |text| from_environment(&[("PFY_LINE_API_BASE", text)]);
    let config = base("http://127.0.0.1:9000/stand-in").unwrap();
    assert_eq!(config.line.api_base.as_str(), "http://127.0.0.1:9000/stand-in");
    for bad in [
        "api.line.me",
        "ftp://api.line.me",
        "https://api.line.me/?a=b",
        "https://api.line.me/#a",
        "https://me@api.line.me",
        "https://me:too@api.line.me",
        "",
    ] {
        let (key, reason) = only_problem(base(bad));
        assert_eq!(key, "line.api_base", "{bad}");
        assert!(reason.contains("such as https://api.line.me"), "{reason}");
    }
}

#[test]
fn the_edges_of_the_line_settings_hold() {
    for (variable, good, bad) in [
        ("PFY_LINE_RATE_LIMIT", "1", "0"),
        ("PFY_LINE_RATE_LIMIT", "100000", "100001"),
        ("PFY_LINE_TIMEOUT", "100ms", "99ms"),
        ("PFY_LINE_MONTHLY_LIMIT_PAUSE", "31d", "32d"),
        ("PFY_LINE_UNAUTHORIZED_PAUSE", "1s", "0s"),
    ] {
        assert!(from_environment(&[(variable, good)]).is_ok(), "{variable}={good}");
        let (key, _) = only_problem(from_environment(&[(variable, bad)]));
        assert_eq!(layers::variable_of(&key), variable, "{variable}={bad}");
    }
}

#[test]
fn a_lease_leaves_five_seconds_after_a_call_of_the_platform() {
    let timeout = |timeout| from_environment(&[("PFY_LINE_TIMEOUT", timeout)]);
    assert!(timeout("25s").is_ok());
    let (key, reason) = only_problem(timeout("26s"));
    assert_eq!(key, "line.timeout");
    assert!(reason.contains("30s"), "{reason}");
}
