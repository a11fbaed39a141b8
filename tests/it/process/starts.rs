//! First and later starts.

use serde_json::Value;

use super::place::TOKEN;
use super::{Place, Process};

const BOOTSTRAP: (&str, &str) = ("PFY_AUTH_BOOTSTRAP_TOKEN", TOKEN);

#[tokio::test]
async fn the_first_start_prints_a_token_and_the_next_finds_everything_and_prints_none() {
    let place = Place::new().await;
    let mut first = Process::start(&place, &[], &[]);
    let token = first.word_after("Its token, shown this once: ").await;
    let administrator = first.api().await.bearer(&token);
    let create = "mutation { createProject(input: { slug: \"shop\", name: \"Shop\" }) { id } }";
    let made = administrator.data(create, Value::Null).await;
    let output = first.stop().await;
    assert_eq!(output.matches("pfy_").count(), 1, "once:\n{output}");
    let of_schema = output.lines().filter(|line| line.contains("schema") || line.contains("igrat"));
    assert_eq!(of_schema.count(), 1, "one line says what became of the schema:\n{output}");
    let mut second = Process::start(&place, &["serve"], &[]);
    let administrator = second.api().await.bearer(&token);
    let found = administrator.data("{ project(slug: \"shop\") { id } }", Value::Null).await;
    assert_eq!(found["project"], made["createProject"]);
    let output = second.stop().await;
    assert!(!output.contains("pfy_") && !output.contains("token"), "{output}");
    assert!(!output.contains("schema"), "{output}");
}

#[tokio::test]
async fn a_configured_first_token_holds_and_is_not_printed() {
    let place = Place::new().await;
    let mut first = Process::start(&place, &[], &[BOOTSTRAP, ("PFY_LOG_LEVEL", "debug")]);
    let administrator = first.api().await.bearer(TOKEN);
    let me = administrator.data("{ me { email administrator } }", Value::Null).await;
    assert_eq!(me["me"]["administrator"], true);
    let output = first.stop().await;
    assert!(!output.contains(TOKEN), "{output}");
    // With users there, another one changes nothing.
    let other = "pfy_another7890123456789012345678901234567890123";
    let mut second = Process::start(&place, &[], &[("PFY_AUTH_BOOTSTRAP_TOKEN", other)]);
    let api = second.api().await;
    api.bearer(TOKEN).data("{ me { email } }", Value::Null).await;
    let refused = api.bearer(other).graphql("{ me { email } }", Value::Null).await;
    assert_eq!(refused.code(), "UNAUTHENTICATED");
    second.stop().await;
}

#[tokio::test]
async fn a_lost_token_is_replaced_on_the_server() {
    let place = Place::new().await;
    let mut first = Process::start(&place, &[], &[]);
    first.api().await;
    first.stop().await;
    let mut first = Process::start(&place, &["token"], &[]);
    let token = first.word_after("Its token, shown this once: ").await;
    assert!(first.ended().await.success());
    let mut server = Process::start(&place, &[], &[]);
    let administrator = server.api().await.bearer(&token);
    administrator.data("{ me { email } }", Value::Null).await;
    server.stop().await;
}
