//! Resumes of workflows that a workflow service queues.

use chrono::Duration;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{NEWCOMER, audited};
use crate::client::Answer;
use crate::receiver::Answer as Says;
use crate::served::{Role, Served};

const PATH: &str = "/api/machine/scheduled-actions";

async fn queue(served: &Served, role: Role, mut extra: Value) -> Answer {
    let mut body = json!({ "workflowId": served.id("workflow"), "nodePath": "welcome/wait" });
    body.as_object_mut().unwrap().append(extra.as_object_mut().unwrap());
    served.client(role).post(PATH, &body).await
}

fn path(id: &Value) -> String {
    format!("{PATH}/{}", id.as_str().unwrap())
}

/// The resumes that arrived at a backend.
fn arrived(served: &Served, at: &str) -> Vec<Value> {
    let all = served.test.receiver.received_at(at).into_iter();
    let bodies = all.map(|received| serde_json::from_slice::<Value>(&received.body).unwrap());
    bodies.filter(|body| body["type"] == "resume_workflow").collect()
}

/// Lets `seconds` pass; the backends are alive after it.
async fn wait(served: &Served, seconds: i64) {
    served.test.advance(seconds);
    let backends = ["backend", "failingBackend"].map(|name| served.id(name).parse().unwrap());
    served.test.heartbeat(&backends.map(trigger_manager::domain::id::BackendId)).await;
    served.test.run().await;
}

#[tokio::test]
async fn a_resume_reaches_each_backend_at_its_time() {
    let served = Served::new().await;
    let extra = json!({
        "userId": NEWCOMER, "line_oa_id": served.id("lineOa"), "delay": "1h30m",
        "payload": { "step": 2, "inner_key": [null] }, "expires_after": "1h",
    });
    let answer = queue(&served, Role::Machine, extra).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let made = answer.json();
    let due = served.test.app.now() + Duration::minutes(90);
    assert_eq!(made["executeAt"], json!(due), "{made}");
    assert_eq!(made["expiresAt"], json!(due + Duration::hours(1)));
    assert_eq!((&made["status"], &made["attempts"]), (&json!("pending"), &json!(0)));
    wait(&served, 5399).await;
    assert!(arrived(&served, "/one").is_empty(), "it is not due yet");
    wait(&served, 1).await;
    for backend in ["/one", "/two"] {
        let resumes = arrived(&served, backend);
        assert_eq!(resumes.len(), 1, "{backend} {resumes:?}");
        let resume = &resumes[0];
        assert_eq!(resume["workflow_id"], served.id("workflow"));
        assert_eq!(resume["workflow_node_path"], "welcome/wait");
        assert_eq!(resume["user_id"], NEWCOMER);
        assert_eq!(resume["line_oa_id"], served.id("lineOa"));
        assert_eq!(resume["rule_id"], Value::Null);
        assert_eq!(resume["payload"], json!({ "step": 2, "inner_key": [null] }));
    }
    let shown = served.client(Role::Machine).get(&path(&made["id"])).await.json();
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("completed"), &json!(1)), "{shown}");
    let audit = audited(&served, "scheduled_action.create").await;
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0].entity_id.to_string(), made["id"].as_str().unwrap());
    assert!(!audit[0].after.as_ref().unwrap().to_string().contains("inner_key"));
}

#[tokio::test]
async fn a_time_that_has_passed_and_no_time_mean_now() {
    let served = Served::new().await;
    let now = json!(served.test.app.now());
    for extra in [json!({}), json!({ "executeAt": "2020-01-01T00:00:00+07:00" })] {
        let made = queue(&served, Role::Machine, extra).await.json();
        assert_eq!(made["executeAt"], now, "{made}");
    }
    wait(&served, 0).await;
    assert_eq!(arrived(&served, "/one").len(), 2);
}

#[tokio::test]
async fn a_key_queues_once_in_its_application() {
    let served = Served::new().await;
    let key = || json!({ "dedupeKey": "k", "delay": "1h" });
    let calls = (0..6).map(|_| queue(&served, Role::Machine, key()));
    let answers = futures::future::join_all(calls).await;
    let made: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(made.len(), 1, "{answers:?}");
    let id = made[0].json()["id"].clone();
    for answer in &answers {
        assert!([200, 201].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.json()["id"], id);
    }
    served.client(Role::Machine).delete(&path(&id)).await;
    let again = queue(&served, Role::Machine, key()).await;
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("cancelled")), "{again:?}");
    assert_eq!(audited(&served, "scheduled_action.create").await.len(), 1);
    let other = json!({ "dedupeKey": "another", "delay": "1h" });
    assert_eq!(queue(&served, Role::Machine, other).await.status, 201);
}

#[tokio::test]
async fn what_does_not_fit_is_named() {
    let served = Served::new().await;
    let misfits = [
        (json!({ "workflowId": null }), "workflowId"),
        (json!({ "nodePath": null }), "nodePath"),
        (json!({ "nodePath": "" }), "nodePath"),
        (json!({ "nodePath": "x".repeat(501) }), "nodePath"),
        (json!({ "nodePath": "a\u{0}" }), "nodePath"),
        (json!({ "userId": "ada" }), "userId"),
        (json!({ "executeAt": "soon" }), "executeAt"),
        (json!({ "executeAt": "2027-03-03T12:00:31Z" }), "executeAt"),
        (json!({ "executeAt": "2026-04-01T12:00:00Z", "delay": "1h" }), "delay"),
        (json!({ "delay": "-1h" }), "delay"),
        (json!({ "delay": "367d" }), "delay"),
        (json!({ "delay": 60 }), "delay"),
        (json!({ "expiresAfter": "0s" }), "expiresAfter"),
        (json!({ "dedupeKey": "" }), "dedupeKey"),
        (json!({ "dedupeKey": "x".repeat(201) }), "dedupeKey"),
        (json!({ "payload": { "a": "\u{0}" } }), "payload.a"),
        (json!({ "executeat": "2026-04-01T12:00:00Z" }), "executeat"),
        (json!({ "dedupekey": "k" }), "dedupekey"),
    ];
    for (extra, field) in misfits {
        let shown = extra.to_string();
        let answer = queue(&served, Role::Machine, extra).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "INVALID"), "{shown} {answer:?}");
        assert_eq!(answer.json()["field"], field, "{answer:?}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(field) || field == "delay", "{detail}");
    }
    let missing = Uuid::now_v7().to_string();
    for extra in [json!({ "workflowId": missing }), json!({ "lineOaId": missing })] {
        assert_eq!(queue(&served, Role::Machine, extra).await.code(), "NOT_FOUND");
    }
    assert!(audited(&served, "scheduled_action.create").await.is_empty());
}

#[tokio::test]
async fn cancelled_work_is_not_delivered_and_what_has_ended_stays() {
    let served = Served::new().await;
    let client = served.client(Role::Machine);
    let id = queue(&served, Role::Machine, json!({ "delay": "1m" })).await.json()["id"].clone();
    let cancelled = client.delete(&path(&id)).await;
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")));
    wait(&served, 60).await;
    assert!(arrived(&served, "/one").is_empty());
    // As whoever lost the first answer asks again.
    let again = client.delete(&path(&id)).await;
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("cancelled")), "{again:?}");
    let counts = [cancelled, again].map(|answer| answer.json()["cancelled"].clone());
    assert_eq!(counts, [json!(1), json!(0)]);
    let audit = audited(&served, "scheduled_action.cancel").await;
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0].before.as_ref().unwrap()["status"], "pending");
    assert_eq!(audit[0].after.as_ref().unwrap()["status"], "cancelled");
}

#[tokio::test]
async fn what_one_backend_had_is_not_taken_back_from_it_but_from_the_others() {
    let served = Served::new().await;
    served.test.receiver.always("/two", Says::RetryAfter(503, "600"));
    served.test.receiver.always("/one", Says::RetryAfter(503, "600"));
    let extra = json!({ "expiresAfter": "1d" });
    let id = queue(&served, Role::Machine, extra).await.json()["id"].clone();
    let executor = [("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "9")];
    let executor = served.test.another_executor_with(&executor).await;
    executor.run_until_idle().await.unwrap();
    assert_eq!((arrived(&served, "/one").len(), arrived(&served, "/two").len()), (1, 1));
    let cancelled = served.client(Role::Machine).delete(&path(&id)).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let cancelled = cancelled.json();
    assert_eq!((&cancelled["cancelled"], &cancelled["status"]), (&json!(2), &json!("cancelled")));
    let copy = &cancelled["copies"][0];
    let reason = (&copy["status"], &copy["lastError"]);
    assert_eq!(reason, (&json!("cancelled"), &json!("cancelled_by_request")), "{cancelled}");
    let audit = audited(&served, "scheduled_action.cancel").await;
    assert_eq!(audit[0].after.as_ref().unwrap()["cancelledActions"], 2);
    for name in ["/one", "/two"] {
        served.test.receiver.always(name, Says::Status(200));
    }
    wait(&served, 3600).await;
    assert_eq!((arrived(&served, "/one").len(), arrived(&served, "/two").len()), (1, 1));
}

#[tokio::test]
async fn each_backend_of_a_resume_has_a_state_of_its_own() {
    let served = Served::new().await;
    let client = served.client(Role::Machine);
    served.test.receiver.always("/two", Says::Status(400));
    let made = queue(&served, Role::Machine, json!({})).await.json();
    assert_eq!((&made["copies"], &made["backendId"]), (&json!([]), &Value::Null), "{made}");
    assert_eq!(made.get("cancelled"), None);
    wait(&served, 0).await;
    let shown = client.get(&path(&made["id"])).await.json();
    assert_eq!(shown["copies"].as_array().unwrap().len(), 1, "{shown}");
    let of = |backend: &str| match shown["backendId"] == served.id(backend) {
        true => &shown,
        false => &shown["copies"][0],
    };
    for (backend, at, status) in
        [("backend", "/one", "completed"), ("failingBackend", "/two", "failed")]
    {
        let shown = of(backend);
        assert_eq!(shown["backendId"], served.id(backend), "{shown}");
        assert_eq!(
            (&shown["status"], shown["lastError"].is_null()),
            (&json!(status), at == "/one")
        );
        assert_eq!(arrived(&served, at)[0]["action_id"], shown["id"], "each sends its own id");
    }
    let refused = client.delete(&path(&made["id"])).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "CONFLICT"), "{refused:?}");
    let (detail, status) = (refused.json()["detail"].clone(), shown["status"].as_str().unwrap());
    assert_eq!(detail, format!("it has ended already: it is {status}"));
}

#[tokio::test]
async fn a_cancel_of_what_was_left_can_be_repeated() {
    // Whichever backend the work went to first, and a copy to the other.
    for (answers, is_away) in [("/one", "/two"), ("/two", "/one")] {
        let served = Served::new().await;
        let client = served.client(Role::Machine);
        served.test.receiver.always(answers, Says::Status(200));
        served.test.receiver.always(is_away, Says::RetryAfter(503, "600"));
        let id = queue(&served, Role::Machine, json!({})).await.json()["id"].clone();
        let executor = [("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "9")];
        let executor = served.test.another_executor_with(&executor).await;
        executor.run_until_idle().await.unwrap();
        let left = client.delete(&path(&id)).await.json();
        assert_eq!(left["cancelled"], 1, "{left}");
        let states = [&left["status"], &left["copies"][0]["status"]];
        for state in ["completed", "cancelled"] {
            assert!(states.contains(&&json!(state)), "{left}");
        }
        let again = client.delete(&path(&id)).await;
        assert_eq!((again.status, &again.json()["cancelled"]), (200, &json!(0)), "{again:?}");
        for part in ["status", "copies"] {
            assert_eq!(again.json()[part], left[part]);
        }
        assert_eq!(audited(&served, "scheduled_action.cancel").await.len(), 1);
    }
}

#[tokio::test]
async fn a_key_of_other_work_is_a_conflict() {
    let served = Served::new().await;
    let make = "mutation($id: ID!) {
        createWorkflow(input: { applicationId: $id, name: \"another\" }) { id } }";
    let application = json!({ "id": served.id("application") });
    let made = served.client(Role::Maintainer).data(make, application).await;
    let key = |mut other: Value| {
        let mut body = json!({ "dedupeKey": "k", "delay": "1h" });
        body.as_object_mut().unwrap().append(other.as_object_mut().unwrap());
        body
    };
    let first = queue(&served, Role::Machine, key(json!({}))).await;
    assert_eq!(first.status, 201, "{first:?}");
    for (other, what) in [
        (json!({ "workflowId": made["createWorkflow"]["id"] }), "another workflowId before"),
        (json!({ "nodePath": "bye" }), "another nodePath before"),
        (json!({ "userId": NEWCOMER }), "another userId before"),
        (
            json!({ "nodePath": "bye", "userId": NEWCOMER }),
            "another nodePath and another userId before",
        ),
    ] {
        let answer = queue(&served, Role::Machine, key(other)).await;
        assert_eq!((answer.status, answer.code().as_str()), (409, "CONFLICT"), "{answer:?}");
        assert_eq!(answer.json()["field"], "dedupeKey");
        assert!(answer.body.contains(what), "{answer:?}");
    }
    // What can't be compared is not: from another time on an hour ends at another time.
    for other in [json!({ "delay": "2h" }), json!({ "payload": { "a": 1.0 } })] {
        let again = queue(&served, Role::Machine, key(other)).await;
        assert_eq!((again.status, &again.json()["id"]), (200, &first.json()["id"]), "{again:?}");
    }
    assert_eq!(audited(&served, "scheduled_action.create").await.len(), 1);
}

#[tokio::test]
async fn work_of_others_and_work_of_another_kind_is_like_missing_work() {
    let served = Served::new().await;
    let id = queue(&served, Role::Machine, json!({ "delay": "1h" })).await.json()["id"].clone();
    let real = id.as_str().unwrap().to_owned();
    let missing = Uuid::now_v7().to_string();
    let delivery = served.id("delivery").to_owned();
    for role in [Role::Sibling, Role::Outsider] {
        let client = served.client(role);
        for id in [&real, &delivery] {
            let (path, nowhere) = (format!("{PATH}/{id}"), format!("{PATH}/{missing}"));
            let answers = [client.get(&path).await, client.delete(&path).await];
            let others = [client.get(&nowhere).await, client.delete(&nowhere).await];
            for (answer, other) in answers.iter().zip(&others) {
                assert_eq!((answer.status, other.status), (404, 404), "{answer:?}");
                assert_eq!(answer.body.replace(id, &missing), other.body);
            }
        }
        let hidden = queue(&served, role, json!({})).await;
        let nowhere = queue(&served, role, json!({ "workflowId": missing })).await;
        assert_eq!((hidden.status, &hidden.body), (404, &nowhere.body), "{role:?}");
    }
    // A trigger's delivery is no scheduled action of this kind, not even for its own application.
    let machine = served.client(Role::Machine);
    assert_eq!(machine.get(&format!("{PATH}/{delivery}")).await.status, 404);
    assert_eq!(machine.get(&format!("{PATH}/{real}")).await.status, 200);
    assert_eq!(served.client(Role::Member).get(&format!("{PATH}/{real}")).await.status, 200);
    assert_eq!(served.client(Role::Member).delete(&format!("{PATH}/{real}")).await.status, 403);
}
