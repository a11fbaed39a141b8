//! The commands beside `serve`.

use std::os::unix::fs::PermissionsExt;

use super::{Place, Process};

#[tokio::test]
async fn schema_prints_the_contract() {
    let place = Place::new().await;
    let mut process = Process::start(&place, &["schema"], &[]);
    assert!(process.ended().await.success());
    let committed = include_str!("../../../schema.graphql");
    let lines: Vec<_> = committed.lines().collect();
    assert!(process.output() == lines.join("\n"), "run `trigger-manager schema > schema.graphql`");
}

#[tokio::test]
async fn config_shows_what_is_set_and_no_secret() {
    let place = Place::new().await;
    let mut process = Process::start(&place, &["config"], &[("PFY_RUN_MODE", "executor")]);
    assert!(process.ended().await.success());
    let output = process.output();
    assert!(output.contains("run_mode: \"executor\""), "{output}");
    assert!(!output.contains("a passphrase of the tests"), "{output}");
}

#[tokio::test]
async fn migrate_ends_when_the_schema_is_there_also_the_second_time() {
    let place = Place::new().await;
    for _ in 0..2 {
        let mut process = Process::start(&place, &["migrate"], &[]);
        assert!(process.ended().await.success(), "{}", process.output());
        assert!(process.output().contains("up to date"), "{}", process.output());
    }
}

#[tokio::test]
async fn pg_source_prints_sql_without_any_configuration_and_names_the_option_that_is_wrong() {
    let place = Place::new().await;
    let table = ["pg-source", "sql", "--table", "public.users", "--type", "attribute_changed"];
    let user = ["--user-column", "line_id", "--line-oa-id", "0190c5a2-0000-7000-8000-000000000001"];
    let nothing_else = [("PFY_NO_SUCH_SETTING", "1")];
    let mut process = Process::start(&place, &[&table[..], &user].concat(), &nothing_else);
    assert!(process.ended().await.success(), "{}", process.output());
    assert!(process.output().contains("CREATE OR REPLACE TRIGGER"), "{}", process.output());
    let mut process = Process::start(&place, &table, &[]);
    assert!(!process.ended().await.success(), "{}", process.output());
    assert!(process.output().contains("--user-column is missing"), "{}", process.output());
}

#[tokio::test]
async fn check_tells_by_its_exit_code_whether_the_server_is_healthy() {
    let place = Place::new().await;
    let mut server = Process::start(&place, &[], &[]);
    let graphql = server.word_after("GraphQL at ").await;
    let address = graphql.trim_start_matches("http://").trim_end_matches("/graphql").to_owned();
    let settings = [("PFY_HTTP_ADDR", address.as_str())];
    let mut check = Process::start(&place, &["check"], &settings);
    assert!(check.ended().await.success(), "{}", check.output());
    server.stop().await;
    let mut check = Process::start(&place, &["check"], &settings);
    assert!(!check.ended().await.success(), "{}", check.output());
    assert!(check.output().contains("does not answer"), "{}", check.output());
    let executor = [("PFY_RUN_MODE", "executor"), ("PFY_CRON_METRICS_PORT", "0")];
    let mut check = Process::start(&place, &["check"], &executor);
    assert!(!check.ended().await.success());
    assert!(check.output().contains("cron.metrics_port is 0"), "{}", check.output());
}

#[tokio::test]
async fn the_demo_takes_no_setting_of_a_server_shows_a_delivery_and_leaves_nothing_behind() {
    let place = Place::new().await;
    // None of these is taken: the first would be refused, the others would lead elsewhere.
    let of_a_server = [
        ("PFY_NO_SUCH_SETTING", "1"),
        ("PFY_PG_SOURCE_DATABASE_URL", "postgres://ada@127.0.0.1:1/shop"),
        ("PFY_AUTH_BOOTSTRAP_TOKEN", "pfy_of-a-real-server-0123456789"),
        ("PFY_CALLBACKS_ALLOWED_NETWORKS", ""),
    ];
    let mut demo = Process::demo(&place, &of_a_server);
    let token = demo.word_after("token to paste").await;
    assert!(token.starts_with("pfy_"), "{token}");
    demo.line("signature good").await;
    let folder = demo.word_after("its data is in ").await;
    let folder = folder.trim_end_matches('.').to_owned();
    assert!(std::path::Path::new(&folder).join("demo.db").exists(), "{folder}");
    let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "others can look into {folder}");
    demo.signal("INT").await;
    let status = demo.ended().await;
    assert!(status.success(), "{status}\n{}", demo.output());
    assert!(!std::path::Path::new(&folder).exists(), "{folder} is left");
    let left: Vec<_> = std::fs::read_dir(&place.folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!demo.output().contains("ERROR"), "{}", demo.output());
}

#[tokio::test]
async fn a_configuration_file_is_refused_by_commands_that_read_none() {
    let place = Place::new().await;
    for command in ["schema", "demo", "line-stand-in"] {
        let mut process = Process::start(&place, &[command, "--config", "mine.yml"], &[]);
        assert!(!process.ended().await.success(), "{}", process.output());
        let sentence = "this command reads no configuration";
        assert!(process.output().contains(sentence), "{}", process.output());
    }
}
