//! Starts that must not happen.

use trigger_manager::store::Engine;

use super::{Place, Process};
use crate::harness::{engine, postgres_at_hand};

/// What a start says that must fail.
async fn refusal(place: &Place, settings: &[(&str, &str)]) -> String {
    let mut process = Process::start(place, &[], settings);
    let status = process.ended().await;
    assert!(!status.success(), "{settings:?}:\n{}", process.output());
    process.output()
}

#[tokio::test]
async fn a_bad_setting_stops_the_start_with_its_name() {
    let place = Place::new().await;
    for (key, value, name) in [
        ("PFY_RUN_MODE", "sometimes", "run_mode"),
        ("PFY_HTTP_ADDR", "here", "http_addr"),
        ("PFY_CRON_TRIGGER_CHECK_INTERVAL", "30", "cron.trigger_check_interval"),
        ("PFY_CALLBACKS_ALLOWED_NETWORKS", "10.0.0.0/99", "callbacks.allowed_networks"),
        ("PFY_CRON_TIME_ZONE", "Europe/Atlantis", "cron.time_zone"),
        ("PFY_DATABASE_URL", "mysql://localhost/x", "database_url"),
        ("PFY_CRON_METRIC_PORT", "1", "PFY_CRON_METRIC_PORT"),
        ("PFY_AUTH_BOOTSTRAP_TOKEN", "muser_01234567890123456789", "auth.bootstrap_token"),
    ] {
        let output = refusal(&place, &[(key, value)]).await;
        assert!(output.contains(name), "{key}={value}:\n{output}");
        assert!(!output.contains("panicked"), "{output}");
        let secret = key.contains("TOKEN") && output.contains(value);
        assert!(!secret, "{output}");
    }
}

#[tokio::test]
async fn an_unknown_key_of_the_file_stops_the_start_with_its_name() {
    let place = Place::new().await;
    std::fs::write(place.folder.join("config.yml"), "cron:\n  metric_port: 1\n").unwrap();
    let output = refusal(&place, &[]).await;
    assert!(output.contains("cron.metric_port"), "{output}");
}

#[tokio::test]
async fn another_key_or_zone_than_the_databases_is_refused_with_a_sentence() {
    let place = Place::new().await;
    let mut first = Process::start(&place, &[], &[]);
    first.api().await;
    first.stop().await;
    let output = refusal(&place, &[("PFY_SECRET_KEY", "another passphrase of the tests")]).await;
    assert!(output.contains("secret_key is not the key"), "{output}");
    let output = refusal(&place, &[("PFY_CRON_TIME_ZONE", "Asia/Tokyo")]).await;
    let sentence = "the time zone of this process is Asia/Tokyo, but this database was set up with";
    assert!(output.contains(sentence) && output.contains("set-time-zone Asia/Tokyo"), "{output}");
    // As the sentence says.
    let mut change = Process::start(&place, &["set-time-zone", "Asia/Tokyo"], &[]);
    assert!(change.ended().await.success(), "{}", change.output());
    let mut moved = Process::start(&place, &[], &[("PFY_CRON_TIME_ZONE", "Asia/Tokyo")]);
    moved.api().await;
    moved.stop().await;
}

#[tokio::test]
async fn the_secret_key_is_changed_by_a_command_while_nothing_runs() {
    let place = Place::new().await;
    let new = place.folder.join("new.key");
    let file = new.to_str().unwrap();
    std::fs::write(&new, "another passphrase of the tests\n").unwrap();
    let mut first = Process::start(&place, &[], &[]);
    first.api().await;
    let mut early = Process::start(&place, &["change-secret-key", file], &[]);
    assert!(!early.ended().await.success());
    let output = early.output();
    assert!(output.contains("an executor runs on") && output.contains("stop all"), "{output}");
    first.stop().await;
    let mut change = Process::start(&place, &["change-secret-key", file], &[]);
    assert!(change.ended().await.success(), "{}", change.output());
    let output = refusal(&place, &[]).await;
    assert!(output.contains("secret_key is not the key"), "{output}");
    let key = [("PFY_SECRET_KEY", "another passphrase of the tests")];
    let mut then = Process::start(&place, &[], &key);
    then.api().await;
    then.stop().await;
}

#[tokio::test]
async fn a_key_that_is_lost_is_not_replaced_by_another_one() {
    let place = Place::new().await;
    let own = [("PFY_SECRET_KEY", "")];
    // On PostgreSQL there is no place for a file, so the key must be given.
    if engine() == Engine::Postgres {
        let output = refusal(&place, &own).await;
        assert!(output.contains("secret_key"), "{output}");
        return;
    }
    let mut first = Process::start(&place, &[], &own);
    first.api().await;
    first.stop().await;
    let file = place.folder.join("secret.key");
    // A passphrase would be no key in that file.
    let new = place.folder.join("new.key");
    std::fs::write(&new, "another passphrase of the tests").unwrap();
    let mut change = Process::start(&place, &["change-secret-key", new.to_str().unwrap()], &own);
    assert!(!change.ended().await.success());
    assert!(change.output().contains("must hold 32 bytes in base64"), "{}", change.output());
    std::fs::remove_file(&file).unwrap();
    let output = refusal(&place, &own).await;
    assert!(output.contains("was set up with a key; restore the file"), "{output}");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_port_that_is_taken_stops_the_start_with_the_keys_name() {
    let place = Place::new().await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = refusal(&place, &[("PFY_HTTP_ADDR", &address)]).await;
    assert!(output.contains("http_addr") && output.contains(&address), "{output}");
    let port = taken.local_addr().unwrap().port().to_string();
    let output = refusal(&place, &[("PFY_CRON_METRICS_PORT", &port)]).await;
    assert!(output.contains("cron.metrics_port"), "{output}");
}

#[tokio::test]
async fn a_database_that_can_not_be_opened_is_told_with_the_reason_and_without_the_password() {
    let place = Place::new().await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = format!("postgres://ada:hunter2@{}/shop", free.local_addr().unwrap());
    drop(free);
    let mut cases = vec![(away, "Connection refused")];
    if let Some(url) = postgres_at_hand() {
        let (_, server) = url.split_once('@').unwrap();
        cases.push((format!("postgres://ada:hunter2@{server}"), "authentication failed"));
    }
    for (url, reason) in cases {
        let output = refusal(&place, &[("PFY_DATABASE_URL", &url)]).await;
        let told = output.lines().find(|line| line.starts_with("Error: ")).unwrap_or(&output);
        assert!(told.contains(reason) && told.contains("can't open the database"), "{output}");
        assert_eq!(told.matches(reason).count(), 1, "{output}");
        assert!(!output.contains("hunter2"), "{output}");
    }
}
