//! LINE OAs, the users they know, and audiences.

use chrono::{DateTime, Utc};
use trigger_manager::domain::access::{Role, Scope};
use trigger_manager::domain::audience::Audience;
use trigger_manager::domain::id::*;
use trigger_manager::domain::line::{FollowState, LineOa, LineUser};
use trigger_manager::domain::workflow::Workflow;
use trigger_manager::store::line::{LineSecrets, NewLineSecrets, Standing};
use trigger_manager::store::{Store, audience, line, workflow};

use super::world::{World, at, first, member, number, patiently, race, user, within};
use crate::harness::TestStore;

/// A LINE user id that ends in `n`.
pub fn line_user(n: usize) -> String {
    format!("U{n:032x}")
}

impl World {
    pub fn new_line_oa(&self, channel: &str) -> LineOa {
        LineOa {
            id: LineOaId::new(),
            organization_id: self.project.id,
            name: format!("account of {channel}"),
            channel_id: channel.to_owned(),
            paused_until: None,
            paused_reason: None,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    pub async fn line_oa(&self, channel: &str) -> LineOa {
        let line_oa = self.new_line_oa(channel);
        within!(self.store, |tx| line::insert(&*tx, &line_oa, &sealed("first")));
        line_oa
    }

    pub fn new_audience(&self, of: &LineOa, name: &str) -> Audience {
        Audience {
            id: AudienceId::new(),
            line_oa_id: of.id,
            organization_id: of.organization_id,
            name: name.to_owned(),
            description: String::new(),
            created_at: at(0),
            updated_at: at(0),
        }
    }

    pub async fn audience(&self, of: &LineOa, name: &str) -> Audience {
        let new = self.new_audience(of, name);
        within!(self.store, |tx| audience::insert(&*tx, &new));
        new
    }

    pub async fn workflow(&self, name: &str) -> Workflow {
        let new = Workflow {
            id: WorkflowId::new(),
            application_id: self.application.id,
            organization_id: self.project.id,
            name: name.to_owned(),
            description: String::new(),
            created_at: at(0),
            updated_at: at(0),
        };
        within!(self.store, |tx| workflow::insert(&*tx, &new));
        new
    }
}

fn sealed(of: &str) -> LineSecrets {
    let (channel_secret, channel_access_token) = (format!("{of} secret"), format!("{of} token"));
    LineSecrets { channel_secret, channel_access_token }
}

async fn reread(store: &Store, of: (LineOaId, &str)) -> LineUser {
    line::user(store.read(), Scope::Everything, of).await.unwrap()
}

/// What became of a change that a webhook tells of, and of the user.
async fn told(
    store: &Store,
    of: (LineOaId, &str),
    follows: bool,
    when: DateTime<Utc>,
) -> (Standing, FollowState) {
    let standing = match follows {
        true => within!(store, |tx| line::follow(&tx, of, when, at(9999))),
        false => within!(store, |tx| line::unfollow(&tx, of, when, at(9999))),
    };
    (standing, reread(store, of).await.follow_state)
}

#[tokio::test]
async fn whoever_follows_is_known_and_is_told_from_whoever_comes_back() {
    let store = TestStore::new().await;
    let account = World::new(&store).await.line_oa("1").await.id;
    let id = line_user(1);
    let of = (account, id.as_str());
    let standing = |known, had_followed, news| Standing { known, had_followed, news };
    let follows = told(&store, of, true, at(10)).await;
    assert_eq!(follows, (standing(false, false, true), FollowState::Following));
    let blocks = told(&store, of, false, at(20)).await;
    assert_eq!(blocks, (standing(true, true, true), FollowState::Blocked));
    let returns = told(&store, of, true, at(30)).await;
    assert_eq!(returns, (standing(true, true, true), FollowState::Following));
    let user = reread(&store, of).await;
    assert_eq!((user.followed_at, user.unfollowed_at), (Some(at(30)), Some(at(20))));
    within!(store, |tx| line::seen(&*tx, &[(account, line_user(2))], at(0)));
    let known = line_user(2);
    let follows = told(&store, (account, &known), true, at(10)).await;
    assert_eq!(follows.0, standing(true, false, true), "known, and never a friend before");
}

#[tokio::test]
async fn what_is_told_late_or_again_changes_nothing() {
    let store = TestStore::new().await;
    let account = World::new(&store).await.line_oa("1").await.id;
    let id = line_user(1);
    let of = (account, id.as_str());
    told(&store, of, true, at(10)).await;
    told(&store, of, false, at(20)).await;
    let before = reread(&store, of).await;
    for (follows, when) in [(true, 10), (true, 19), (false, 20), (false, 5)] {
        let (standing, _) = told(&store, of, follows, at(when)).await;
        assert!(!standing.news, "{follows} at {when}");
        assert_eq!(reread(&store, of).await, before, "{follows} at {when}");
    }
    // Of two at one instant, the one that is told last holds.
    assert_eq!(told(&store, of, true, at(20)).await.1, FollowState::Following);
}

#[tokio::test]
async fn a_user_of_an_account_that_is_gone_is_no_error_of_a_batch_and_is_missing_alone() {
    let store = TestStore::new().await;
    let account = World::new(&store).await.line_oa("1").await.id;
    let gone = LineOaId::new();
    let users = [(gone, line_user(1)), (account, line_user(1)), (account, line_user(1))];
    assert_eq!(within!(store, |tx| line::seen(&*tx, &users, at(0))), 1);
    assert_eq!(within!(store, |tx| line::seen(&*tx, &users, at(1))), 0);
    let nobody: [(LineOaId, String); 0] = [];
    assert_eq!(within!(store, |tx| line::seen(&*tx, &nobody, at(1))), 0);
    let tx = store.begin().await.unwrap();
    let error = line::follow(&tx, (gone, &line_user(1)), at(0), at(0)).await.unwrap_err();
    assert_eq!(error.code(), "NOT_FOUND");
}

#[tokio::test]
async fn users_of_several_accounts_are_read_at_once() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (one, other) = (world.line_oa("1").await.id, world.line_oa("2").await.id);
    let known = [(one, line_user(1)), (one, line_user(2)), (other, line_user(1))];
    within!(store, |tx| line::seen(&*tx, &known, at(0)));
    let asked = [known[0].clone(), known[2].clone(), (other, line_user(2))];
    let before = store.traffic().statements();
    let mut found = line::users_by_ids(store.read(), &asked).await.unwrap();
    assert_eq!(store.traffic().statements() - before, 1);
    found.sort_by_key(|user| user.line_oa_id);
    let found: Vec<_> = found.into_iter().map(|user| (user.line_oa_id, user.user_id)).collect();
    assert_eq!(found, asked[..2]);
}

#[tokio::test]
async fn members_of_several_audiences_are_added_once_and_gone_audiences_are_left_out() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (account, other) = (world.line_oa("1").await, world.line_oa("2").await);
    let (a, b) = (world.audience(&account, "a").await.id, world.audience(&account, "b").await.id);
    let rows = [
        (a, account.id, line_user(1)),
        (a, account.id, line_user(1)),
        (b, account.id, line_user(1)),
        (b, account.id, line_user(2)),
        (AudienceId::new(), account.id, line_user(3)),
        (a, other.id, line_user(4)),
    ];
    assert_eq!(within!(store, |tx| audience::add(&*tx, &rows, at(1))), 3);
    assert_eq!(within!(store, |tx| audience::add(&*tx, &rows, at(2))), 0);
    let mut counts = audience::counts(store.read(), &[a, b, AudienceId::new()]).await.unwrap();
    counts.sort();
    assert_eq!(counts, [(a, 1), (b, 2)]);
    let page = audience::members(store.read(), b, &first(50)).await.unwrap();
    let members: Vec<_> =
        page.rows.into_iter().map(|(_, row)| (row.user_id, row.added_at)).collect();
    assert_eq!(members, [(line_user(1), at(1)), (line_user(2), at(1))]);
    reread(&store, (account.id, &line_user(2))).await;
    let removing = [line_user(2), line_user(9)];
    assert_eq!(within!(store, |tx| audience::remove(&*tx, b, &removing)), 1);
    assert_eq!(within!(store, |tx| audience::remove(&*tx, b, &removing)), 0);
    assert_eq!(audience::count(store.read(), b).await.unwrap(), 1);
}

#[tokio::test]
async fn ten_thousand_members_cost_as_many_statements_as_one_and_are_walked_in_order() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let account = world.line_oa("1").await;
    let (few, many) =
        (world.audience(&account, "few").await, world.audience(&account, "many").await);
    let mut costs = Vec::new();
    for (audience, n) in [(&few, 1), (&many, 10_000)] {
        let rows: Vec<_> = (0..n).map(|n| (audience.id, account.id, line_user(n))).collect();
        let keys: Vec<_> = rows.iter().map(|row| (account.id, &row.2)).collect();
        let before = store.traffic().statements();
        let added = within!(store, |tx| audience::add(&*tx, &rows, at(0)));
        let adding = store.traffic().statements() - before;
        let read = line::users_by_ids(store.read(), &keys).await.unwrap();
        assert_eq!((usize::try_from(added).unwrap(), read.len()), (n, n));
        costs.push(adding);
    }
    assert_eq!(costs, [2, 2]);
    let mut walked = Vec::new();
    loop {
        let cursor = walked.last().map(String::as_str);
        let next = audience::members_after(store.read(), many.id, cursor, 3000).await.unwrap();
        if next.is_empty() {
            break;
        }
        walked.extend(next);
    }
    assert_eq!(walked, (0..10_000).map(line_user).collect::<Vec<_>>());
    let users: Vec<_> = (0..10_000).map(line_user).collect();
    let before = store.traffic().statements();
    assert_eq!(within!(store, |tx| audience::remove(&*tx, many.id, &users)), 10_000);
    assert_eq!(store.traffic().statements() - before, 1);
}

#[tokio::test]
async fn a_pause_holds_until_its_time_and_ends_with_new_credentials() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let account = world.line_oa("1").await;
    let pause = async |until, reason: &str, began| {
        within!(store, |tx| line::pause(&*tx, account.id, at(until), reason, at(began)))
    };
    assert!(pause(5000, "monthly_limit", 1).await);
    assert!(!pause(4000, "unauthorized", 2).await, "a shorter one is in it already");
    let (paused, secrets) = line::credentials(store.read(), &[account.id]).await.unwrap().remove(0);
    assert_eq!((paused.paused_until, secrets), (Some(at(5000)), sealed("first")));
    assert_eq!(paused.paused_reason.as_deref(), Some("monthly_limit"));
    let renewed = LineOa { updated_at: at(100), ..account.clone() };
    let token = Some("new token".to_owned());
    let new = NewLineSecrets { channel_access_token: token, ..Default::default() };
    within!(store, |tx| line::update(&*tx, &renewed, new));
    let (found, secrets) = line::credentials(store.read(), &[account.id]).await.unwrap().remove(0);
    assert_eq!(found, renewed);
    assert_eq!(
        (secrets.channel_secret.as_str(), secrets.channel_access_token.as_str()),
        ("first secret", "new token")
    );
    assert!(!pause(9000, "unauthorized", 99).await, "it was refused with the old token");
    assert!(pause(9000, "unauthorized", 100).await);
}

#[tokio::test]
async fn a_channel_and_names_are_taken_once_and_the_conflict_names_the_field() {
    let store = TestStore::new().await;
    let (world, other) = (World::named(&store, "one").await, World::named(&store, "other").await);
    let account = world.line_oa("1").await;
    world.audience(&account, "same").await;
    world.workflow("same").await;
    let tx = store.begin().await.unwrap();
    let error = line::insert(&*tx, &other.new_line_oa("1"), &sealed("x")).await.unwrap_err();
    assert_eq!((error.code(), error.field()), ("CONFLICT", Some("channelId")));
    drop(tx);
    let tx = store.begin().await.unwrap();
    let again = audience::insert(&*tx, &world.new_audience(&account, "same")).await.unwrap_err();
    assert_eq!((again.code(), again.field()), ("CONFLICT", Some("name")));
    assert!(again.to_string().contains("audience"), "{again}");
    drop(tx);
    let mut again = world.workflow("another").await;
    again.name = "same".to_owned();
    let tx = store.begin().await.unwrap();
    let error = workflow::update(&*tx, &again).await.unwrap_err();
    assert_eq!((error.code(), error.field()), ("CONFLICT", Some("name")));
    drop(tx);
    other.audience(&other.line_oa("2").await, "same").await;
    other.workflow("same").await;
}

#[tokio::test]
async fn people_see_what_is_of_their_projects_and_a_machine_finds_accounts_only_to_send_for() {
    let store = TestStore::new().await;
    let (world, other) = (World::named(&store, "one").await, World::named(&store, "other").await);
    let account = world.line_oa("1").await;
    let audience = world.audience(&account, "a").await;
    within!(store, |tx| line::seen(&*tx, &[(account.id, line_user(1))], at(0)));
    let ada = user(&store, "ada@example.com").await;
    member(&store, world.project.id, ada.id, Role::Member).await;
    let eve = user(&store, "eve@example.com").await;
    let scopes = [
        (Scope::Everything, true, true),
        (Scope::ProjectsOf(ada.id), true, true),
        (Scope::ProjectsOf(eve.id), false, false),
        (Scope::Application(world.application.id), false, true),
        (Scope::Application(other.application.id), false, false),
    ];
    for (scope, shown, found) in scopes {
        let db = store.read();
        let by_name = audience::Filter { line_oa_id: account.id, name_contains: None };
        let sort = Default::default();
        let anyone = line::UserFilter::default();
        let page = first(50);
        let sees = [
            line::shown(db, scope, account.id).await.is_ok(),
            line::find_all(db, scope, &[account.id]).await.unwrap().len() == 1,
            line::list(db, scope, None, &page).await.unwrap().rows.len() == 1,
            line::user(db, scope, (account.id, &line_user(1))).await.is_ok(),
            line::users(db, scope, account.id, &anyone, &page).await.unwrap().rows.len() == 1,
            audience::find(db, scope, audience.id).await.is_ok(),
            audience::find_all(db, scope, &[audience.id]).await.unwrap().len() == 1,
            audience::list(db, scope, &by_name, sort, &page).await.unwrap().rows.len() == 1,
        ];
        assert_eq!(sees, [shown; 8], "{scope:?}");
        assert_eq!(line::find(db, scope, account.id).await.is_ok(), found, "{scope:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_account_that_is_deleted_while_users_join_leaves_nothing_behind() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    for round in 0..4 {
        let account = world.line_oa(&round.to_string()).await;
        let audience = world.audience(&account, "a").await;
        race(|racer| {
            let (store, account, audience) = (world.store.clone(), account.id, audience.id);
            async move {
                let once = || async {
                    let tx = store.begin().await?;
                    if racer == 7 {
                        line::find_held(
                            &tx,
                            Scope::Everything,
                            account,
                            trigger_manager::store::Hold::Delete,
                        )
                        .await?;
                        line::delete(&*tx, account).await?;
                    } else {
                        let rows: Vec<_> =
                            (0..50).map(|n| (audience, account, line_user(n))).collect();
                        audience::add(&*tx, &rows, at(0)).await?;
                    }
                    tx.commit_unaudited().await
                };
                patiently(once).await
            }
        })
        .await;
        for table in ["line_user", "audience_member", "audience", "line_oa"] {
            assert_eq!(number(&store, &format!("SELECT count(*) FROM {table}")).await, 0);
        }
    }
}
