//! Every mutation of the running schema has a case. It writes one audit row that says who did
//! what; whoever may not leaves nothing behind; and what one may not see is like what is not
//! there, byte for byte. The same for the endpoints for machines.

mod action_cases;
mod case;
mod cases;
mod line_cases;
mod machine;
mod trigger_rows;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use self::case::Case;
use crate::client::{Answer, REQUEST_ID};
use crate::introspect::Schema;
use crate::served::{Role, Served};

#[tokio::test]
async fn every_mutation_is_audited_once_and_refused_to_whoever_may_not() {
    let mut served = Served::new().await;
    let schema = Schema::of(served.administrator()).await;
    let cases = cases::cases();
    let covered: BTreeSet<_> = cases.iter().map(|case| case.mutation).collect();
    let offered: BTreeSet<_> = schema.fields("Mutation").into_iter().collect();
    assert_eq!(covered, offered, "each mutation needs a case in cases.rs");
    spare_token(&mut served).await;
    for case in &cases {
        let before = everything(&served).await;
        refuse_anonymous(&served, &schema, case).await;
        refuse_readers(&served, &schema, case).await;
        hide_from_strangers(&served, &schema, case).await;
        assert_eq!(everything(&served).await, before, "a refused {} did something", case.mutation);
        succeed(&served, &schema, case).await;
        assert_ne!(everything(&served).await, before, "{} did nothing", case.mutation);
    }
}

/// A token that its owner can do without.
async fn spare_token(served: &mut Served) {
    let query =
        "mutation { createPersonalAccessToken(name: \"spare\") { personalAccessToken { id } } }";
    let mut made = served.client(Role::Owner).data(query, Value::Null).await;
    let id = made["createPersonalAccessToken"]["personalAccessToken"]["id"].take();
    served.ids.insert("spareToken", id.as_str().unwrap().to_owned());
}

async fn refuse_anonymous(served: &Served, schema: &Schema, case: &Case) {
    let mut arguments = case.arguments.clone();
    if case.mutation == "signIn" {
        arguments["password"] = json!("the wrong password");
    }
    let answer = call(served, schema, case, (Role::Anonymous, &arguments)).await;
    assert_eq!(answer.code(), "UNAUTHENTICATED", "{}: {}", case.mutation, answer.body);
    assert!(answer.json()["data"].is_null(), "{}", answer.body);
}

async fn refuse_readers(served: &Served, schema: &Schema, case: &Case) {
    for role in case.forbids {
        let answer = call(served, schema, case, (*role, &case.arguments)).await;
        assert_eq!(answer.code(), "FORBIDDEN", "{} {role:?}: {}", case.mutation, answer.body);
    }
}

async fn hide_from_strangers(served: &Served, schema: &Schema, case: &Case) {
    let Some((hidden, strangers)) = case.hides else { return };
    for role in strangers {
        let real = call(served, schema, case, (*role, &case.arguments)).await;
        let text = case.arguments.to_string();
        let missing = text.replace(&format!("\"{hidden}\""), &format!("\"{}\"", Uuid::now_v7()));
        assert_ne!(text, missing, "{} does not name {hidden}", case.mutation);
        let missing = serde_json::from_str(&missing).unwrap();
        let missing = call(served, schema, case, (*role, &missing)).await;
        assert_eq!(real.code(), "NOT_FOUND", "{} {role:?}: {}", case.mutation, real.body);
        assert_eq!(real.body, missing.body, "{} {role:?}", case.mutation);
        assert_eq!(real.status, missing.status, "{} {role:?}", case.mutation);
    }
}

async fn succeed(served: &Served, schema: &Schema, case: &Case) {
    let anonymous = case.mutation == "signIn";
    let role = if anonymous { Role::Anonymous } else { case.by };
    let count = audit(served).await.0;
    let answer = call(served, schema, case, (role, &case.arguments)).await;
    let data = answer.data();
    let id = data[case.mutation].pointer(case.entity).unwrap();
    let (count_after, row) = audit(served).await;
    assert_eq!(count_after - count, 1, "{} writes one audit row", case.mutation);
    let (action, before, after) = case.audit;
    let what = (case.mutation, &row);
    assert_eq!(row["action"], action, "{what:?}");
    assert_eq!(row["entityType"], action.split('.').next().unwrap(), "{what:?}");
    assert_eq!(&row["entityId"], id, "{what:?}");
    assert_eq!(row["actorType"], "USER", "{what:?}");
    assert_eq!(row["actorId"], served.id(actor(case.by)), "{what:?}");
    assert_eq!(row["requestId"], REQUEST_ID, "{what:?}");
    assert_eq!(row["before"].is_object(), before, "{what:?}");
    assert_eq!(row["after"].is_object(), after, "{what:?}");
    assert_ne!(row["before"], row["after"], "{what:?}");
}

fn actor(role: Role) -> &'static str {
    match role {
        Role::Administrator => "administrator",
        Role::Owner => "owner",
        Role::Maintainer => "maintainer",
        Role::Member => "member",
        Role::Outsider => "outsider",
        other => panic!("{other:?} is no user"),
    }
}

async fn call(
    served: &Served,
    schema: &Schema,
    case: &Case,
    (role, arguments): (Role, &Value),
) -> Answer {
    let document = schema.document("Mutation", case.mutation, arguments, case.selection);
    served.client(role).graphql(&document, served.fill(arguments.clone())).await
}

/// How many rows the audit log has, and the last one.
async fn audit(served: &Served) -> (i64, Value) {
    let query = "{ auditLogs(first: 1) { totalCount nodes {
        actorType actorId action entityType entityId projectId applicationId before after requestId
    } } }";
    let mut data = served.administrator().data(query, Value::Null).await;
    let logs = &mut data["auditLogs"];
    (logs["totalCount"].as_i64().unwrap(), logs["nodes"][0].take())
}

/// All that mutations change, and the number of audit rows.
async fn everything(served: &Served) -> String {
    let query = "{
      users { nodes { id email name administrator disabledAt updatedAt } }
      projects { nodes { id slug name updatedAt
        members { nodes { id role user { id } } }
        applications { nodes { id slug name updatedAt
          tenants { nodes { id slug name environment } }
          machineUsers { nodes { id name environment tokenPrefix updatedAt } }
          triggers { nodes { id name runKey cronExpression timeZone enabled nextRunAt updatedAt } }
          backends { nodes { id name callbackUrl description active lastHeartbeatAt } }
          workflows { nodes { id name description updatedAt } }
        } }
        lineOas { nodes { id name channelId updatedAt
          audiences { nodes { id name description memberCount updatedAt } }
          users { nodes { userId attributes followState updatedAt } }
          triggerRules { nodes { id name enabled sourceConfig updatedAt } }
        } } } }
      occurrences { nodes { id status deliveryCount } }
      deliveries { nodes { id status attemptCount } }
      scheduledActions { nodes { id status attemptCount } }
      auditLogs { totalCount } }";
    served.administrator().graphql(query, Value::Null).await.data().to_string()
}
