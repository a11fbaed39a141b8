//! People who leave.

use serde_json::{Value, json};

use crate::served::{Role, Served};

const DELETE: &str = "mutation($id: ID!) { deleteUser(id: $id) { id } }";
const ADD: &str = "mutation($input: AddProjectMemberInput!) {
    addProjectMember(input: $input) { id } }";

async fn created(served: &Served, mutation: &str, input: Value) -> String {
    let query = format!("mutation($input: {mutation}Input!) {{ done: {} }}", {
        let (first, rest) = mutation.split_at(1);
        format!("{}{rest}(input: $input) {{ id }}", first.to_lowercase())
    });
    let data = served.administrator().data(&query, json!({ "input": input })).await;
    data["done"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_user_without_whom_a_project_has_no_owner_is_not_deleted() {
    let served = Served::new().await;
    let administrator = served.administrator();
    let mut users = Vec::new();
    for name in ["grace", "joan"] {
        let email = format!("{name}@example.com");
        users.push(created(&served, "CreateUser", json!({ "email": email, "name": name })).await);
    }
    for slug in ["alone-one", "alone-two", "shared"] {
        let new = json!({ "slug": slug, "name": slug });
        let project = created(&served, "CreateProject", new).await;
        let add = async |user: &str, role: &str| {
            let input = json!({ "projectId": project, "userId": user, "role": role });
            administrator.data(ADD, json!({ "input": input })).await
        };
        add(&users[0], "OWNER").await;
        add(&users[1], if slug == "shared" { "OWNER" } else { "MAINTAINER" }).await;
        // Whoever makes a project owns it.
        let members =
            "query($id: ID!) { project(id: $id) { members { nodes { id user { id } } } } }";
        let found = administrator.data(members, json!({ "id": project })).await;
        let first = &found["project"]["members"]["nodes"][0];
        assert!(users.iter().all(|user| first["user"]["id"] != user.as_str()), "{found}");
        let leave = "mutation($id: ID!) { removeProjectMember(id: $id) { id } }";
        administrator.data(leave, json!({ "id": first["id"] })).await;
    }
    let answer =
        served.client(Role::Administrator).graphql(DELETE, json!({ "id": users[0] })).await;
    let error = &answer.json()["errors"][0];
    assert_eq!(error["extensions"], json!({ "code": "CONFLICT", "field": "id" }), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("last owner of alone-one, alone-two;"), "{message}");
    let gone = administrator.data(DELETE, json!({ "id": users[1] })).await;
    assert_eq!(gone["deleteUser"]["id"], users[1].as_str(), "the other one owns nothing alone");
    let answer =
        served.client(Role::Administrator).graphql(DELETE, json!({ "id": users[0] })).await;
    assert!(answer.body.contains("alone-one, alone-two, shared;"), "{}", answer.body);
}
