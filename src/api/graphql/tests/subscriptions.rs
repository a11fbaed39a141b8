//! What one event of a subscription may cost, and for whom it is read.

use std::time::Duration;

use async_graphql::{EmptyMutation, Object, Request, Response, Schema, Subscription};
use futures::{Stream, StreamExt};

use super::history::Scene;
use super::socket::Client;
use super::*;
use crate::api::graphql::subscriber::{EachEvent, Subscriber};
use crate::domain::audit::Caller;
use crate::error::Error;

/// So many lists in a list of two.
fn lists(count: usize, application: &str) -> String {
    let lists = (0..count).map(|n| format!("a{n}: occurrences(first: 200) {{ nodes {{ id }} }} "));
    let lists = lists.collect::<String>();
    format!(
        "subscription {{ occurrences(applicationId: \"{application}\") {{ trigger {{
            application {{ triggers(first: 2) {{ nodes {{ {lists} }} }} }} }} }} }}"
    )
}

#[tokio::test]
async fn each_event_may_ask_for_as_many_rows_as_a_query() {
    let scene = Scene::new(200).await;
    let (server, application) = (&scene.server, &scene.application);
    server.trigger(application, "another").await;
    let mut fits = Client::ready(server).await;
    fits.subscribe("1", &lists(40, application)).await;
    let mut beyond = Client::ready(server).await;
    beyond.subscribe("1", &lists(60, application)).await;
    fits.watching(server, 2).await;
    for _ in 0..2 {
        scene.run().await;
        let told = fits.next().await;
        assert!(told["payload"].get("errors").is_none(), "{told}");
        let told = beyond.next().await;
        let error = &told["payload"]["errors"][0];
        assert_eq!(error["extensions"]["code"], "INVALID", "{told}");
        assert!(error["message"].as_str().unwrap().contains("more than 20000 rows"), "{error}");
    }
}

/// Lets three seconds pass, after which who subscribes is looked at again.
async fn later() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn who_is_no_administrator_any_more_is_told_what_others_are_told() {
    let scene = Scene::new(200).await;
    let (server, application) = (&scene.server, &scene.application);
    let eve = server.stranger().await;
    let project = server.data("{ project(slug: \"p\") { id } }", Value::Null).await;
    let join = "mutation($project: ID!) { addProjectMember(input: {
        projectId: $project, email: \"eve@example.com\", role: MEMBER }) { id } }";
    server.data(join, json!({ "project": project["project"]["id"] })).await;
    let users = server.data("{ users { nodes { id email } } }", Value::Null).await;
    let rights = "mutation($id: ID!, $is: Boolean) {
        updateUser(id: $id, input: { administrator: $is }) { id } }";
    let of = |email: &str| {
        let users = users["users"]["nodes"].as_array().unwrap();
        users.iter().find(|user| user["email"] == email).unwrap()["id"].clone()
    };
    server.data(rights, json!({ "id": of("eve@example.com"), "is": true })).await;

    let mut client = Client::ready(server).await;
    let query = format!(
        "subscription {{ occurrences(applicationId: \"{application}\") {{ trigger {{ application {{
            project {{ members {{ nodes {{ user {{ email administrator }} }} }} }} }} }} }} }}"
    );
    client.subscribe("1", &query).await;
    client.watching(server, 1).await;
    let others = |told: &Value| {
        let project = &told["payload"]["data"]["occurrences"]["trigger"]["application"]["project"];
        let members = project["members"]["nodes"].as_array().unwrap_or_else(|| panic!("{told}"));
        let of = members.iter().find(|one| one["user"]["email"] == "eve@example.com");
        of.unwrap()["user"]["administrator"].clone()
    };
    scene.run().await;
    assert_eq!(others(&client.next().await), json!(true));
    let demoted = json!({ "id": of("admin@localhost"), "is": false });
    let demoted = server.ask_as(&eve, rights, demoted).await;
    assert!(demoted.json().get("errors").is_none(), "{}", demoted.text);
    later().await;
    scene.run().await;
    assert_eq!(others(&client.next().await), Value::Null);
}

struct Nothing;

#[Object]
impl Nothing {
    async fn stuck(&self) -> bool {
        std::future::pending().await
    }
}

struct Events;

#[Subscription]
impl Events {
    async fn events(&self) -> impl Stream<Item = Nothing> {
        futures::stream::repeat_with(|| Nothing)
    }
}

#[tokio::test]
async fn an_event_that_takes_too_long_is_given_up_and_is_the_last() {
    let server = Server::new().await;
    let schema = Schema::build(Nothing, EmptyMutation, Events).extension(EachEvent);
    let schema = schema.data(Arc::clone(&server.app)).finish();
    let subscriber = Arc::new(Subscriber::new(Caller::system()));
    let request = Request::new("subscription { events { stuck } }").data(Arc::clone(&subscriber));
    // Time runs to the next timer by itself.
    tokio::time::pause();
    let told: Response = schema.execute_stream(request).next().await.unwrap();
    assert!(matches!(told.errors[0].source::<Error>(), Some(Error::Busy)), "{told:?}");
    assert!(subscriber.has_ended());
}
