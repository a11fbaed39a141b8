//! Pages: no row is lost or repeated, and a cursor is what this list has answered.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::id::TriggerId;
use trigger_manager::domain::page::{Direction, Page, PageRequest};
use trigger_manager::domain::trigger::Trigger;
use trigger_manager::error::Result;
use trigger_manager::store::trigger::{Filter, Sort};
use trigger_manager::store::{application, people, trigger};

use super::world::{World, at, first, within};
use crate::harness::TestStore;

const SORTS: [Sort; 3] = [Sort::CreatedAt, Sort::Name, Sort::UpdatedAt];
const DIRECTIONS: [Direction; 2] = [Direction::Ascending, Direction::Descending];

async fn read(
    world: &World,
    sort: (Sort, Direction),
    request: &PageRequest,
) -> Result<Page<Trigger>> {
    trigger::list(world.store.read(), Scope::Everything, &Filter::default(), sort, request).await
}

fn ids(page: &Page<Trigger>) -> Vec<TriggerId> {
    page.rows.iter().map(|(_, row)| row.id).collect()
}

/// 25 triggers of which many share name and time of change.
async fn crowd(store: &TestStore) -> World {
    let world = World::new(store).await;
    let tx = store.begin().await.unwrap();
    for number in 0..25 {
        let mut trigger = world.new_trigger(&format!("name {}", number % 3), None);
        trigger.updated_at = at(number % 2);
        trigger::insert(&*tx, &trigger).await.unwrap();
    }
    tx.commit_unaudited().await.unwrap();
    world
}

#[tokio::test]
async fn pages_forwards_and_backwards_show_every_row_once_and_in_one_order() {
    let store = TestStore::new().await;
    let world = crowd(&store).await;
    for sort in SORTS.into_iter().flat_map(|sort| DIRECTIONS.map(|way| (sort, way))) {
        let all = ids(&read(&world, sort, &first(200)).await.unwrap());
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 25);
        let mut seen = Vec::new();
        let mut request = first(7);
        loop {
            let page = read(&world, sort, &request).await.unwrap();
            assert_eq!(page.has_previous_page, !seen.is_empty(), "{sort:?}");
            seen.extend(ids(&page));
            assert_eq!(page.has_next_page, seen.len() < 25, "{sort:?}");
            if !page.has_next_page {
                break;
            }
            request.after = page.rows.last().map(|(cursor, _)| cursor.clone());
        }
        assert_eq!(seen, all, "{sort:?}");
        let mut seen = Vec::new();
        let mut request = PageRequest { backwards: true, ..first(7) };
        loop {
            let page = read(&world, sort, &request).await.unwrap();
            assert_eq!(page.has_next_page, !seen.is_empty(), "{sort:?}");
            seen.splice(0..0, ids(&page));
            assert_eq!(page.has_previous_page, seen.len() < 25, "{sort:?}");
            if !page.has_previous_page {
                break;
            }
            request.before = page.rows.first().map(|(cursor, _)| cursor.clone());
        }
        assert_eq!(seen, all, "{sort:?} backwards");
    }
}

#[tokio::test]
async fn rows_that_come_and_go_between_pages_neither_hide_nor_repeat_others() {
    let store = TestStore::new().await;
    let world = crowd(&store).await;
    for sort in SORTS.into_iter().flat_map(|sort| DIRECTIONS.map(|way| (sort, way))) {
        let before = ids(&read(&world, sort, &first(200)).await.unwrap());
        let mut gone = HashSet::new();
        let mut seen = Vec::new();
        let mut request = first(4);
        loop {
            let page = read(&world, sort, &request).await.unwrap();
            seen.extend(ids(&page));
            if !page.has_next_page {
                break;
            }
            request.after = page.rows.last().map(|(cursor, _)| cursor.clone());
            // A row in front, one at the end, one in the middle, and the cursor's own row goes.
            for name in ["a", "name 1", "z"] {
                let mut new = world.new_trigger(name, None);
                new.updated_at = at(if name == "z" { 5000 } else { -5000 });
                within!(store, |tx| trigger::insert(&*tx, &new));
            }
            let last = page.rows.last().unwrap().1.id;
            within!(store, |tx| trigger::delete(&*tx, last));
            gone.insert(last);
        }
        let old: HashSet<_> = before.iter().copied().collect();
        let seen_old: Vec<_> = seen.iter().copied().filter(|id| old.contains(id)).collect();
        assert_eq!(seen_old, before, "{sort:?}");
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), seen.len(), "{sort:?}");
        super::world::execute(&store, "DELETE FROM \"trigger\"").await;
        for number in 0..10 {
            world.trigger(&format!("name {}", number % 2), None).await;
        }
    }
}

#[tokio::test]
async fn a_page_between_two_cursors_holds_what_is_between() {
    let store = TestStore::new().await;
    let world = crowd(&store).await;
    for sort in SORTS.into_iter().flat_map(|sort| DIRECTIONS.map(|way| (sort, way))) {
        let all = read(&world, sort, &first(200)).await.unwrap();
        let between = PageRequest {
            after: Some(all.rows[4].0.clone()),
            before: Some(all.rows[20].0.clone()),
            ..first(200)
        };
        assert_eq!(ids(&read(&world, sort, &between).await.unwrap()), ids(&all)[5..20]);
        let last = PageRequest { limit: 3, backwards: true, ..between };
        assert_eq!(ids(&read(&world, sort, &last).await.unwrap()), ids(&all)[17..20]);
    }
}

#[tokio::test]
async fn the_whole_list_is_counted_when_asked_for() {
    let store = TestStore::new().await;
    let world = crowd(&store).await;
    let sort = (Sort::Name, Direction::Ascending);
    let page = read(&world, sort, &first(5)).await.unwrap();
    assert_eq!(page.total_count, None);
    let after = page.rows.last().map(|(cursor, _)| cursor.clone());
    let counted = PageRequest { with_total: true, after, ..first(5) };
    assert_eq!(read(&world, sort, &counted).await.unwrap().total_count, Some(25));
}

fn assert_refused<T: std::fmt::Debug>(answer: Result<Page<T>>, field: &str, what: &str) {
    let error = answer.map(|page| page.rows).expect_err(what);
    assert_eq!((error.code(), error.field()), ("INVALID", Some(field)), "{what}: {error:?}");
    let said = format!("{field} must be a cursor that this list has answered");
    assert_eq!(error.to_string(), said, "{what}");
}

#[tokio::test]
async fn what_is_no_cursor_of_the_list_is_refused() {
    let store = TestStore::new().await;
    let world = crowd(&store).await;
    let sealed = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let id = TriggerId::new();
    let good = read(&world, (Sort::Name, Direction::Ascending), &first(1)).await.unwrap();
    let good = good.rows[0].0.clone();
    let wrong = [
        String::new(),
        "not base64 !".to_owned(),
        sealed(""),
        sealed("[]"),
        sealed("{}"),
        sealed("null"),
        sealed(r#"[{"s":"a"},{"s":"b"}]"#),
        sealed(&format!(r#"[{{"u":"{id}"}},{{"u":"{id}"}}]"#)),
        sealed(&format!(r#"[{{"s":"a\u0000"}},{{"u":"{id}"}}]"#)),
        sealed(&"[".repeat(100_000)),
        good[..good.len() - 4].to_owned(),
        format!("{good}{good}"),
    ];
    let sort = (Sort::Name, Direction::Ascending);
    for cursor in wrong {
        let after = PageRequest { after: Some(cursor.clone()), ..first(5) };
        assert_refused(read(&world, sort, &after).await, "after", &cursor);
        let before = PageRequest { before: Some(cursor.clone()), ..first(5) };
        assert_refused(read(&world, sort, &before).await, "before", &cursor);
    }
}

#[tokio::test]
async fn a_cursor_of_another_list_is_refused() {
    let store = TestStore::new().await;
    let world = crowd(&store).await;
    let read_store = world.store.read();
    let of_projects = people::projects(read_store, Scope::Everything, &first(1)).await.unwrap();
    let of_applications =
        application::list(read_store, Scope::Everything, None, &first(1)).await.unwrap();
    let by_name = read(&world, (Sort::Name, Direction::Ascending), &first(1)).await.unwrap();
    let by_change = read(&world, (Sort::UpdatedAt, Direction::Ascending), &first(1)).await.unwrap();
    let by_creation = read(&world, (Sort::CreatedAt, Direction::Ascending), &first(1)).await;
    let by_creation = by_creation.unwrap();
    let foreign = |cursor: &str| PageRequest { after: Some(cursor.to_owned()), ..first(5) };
    for (sort, cursors) in [
        (
            Sort::Name,
            vec![
                &of_projects.rows[0].0,
                &of_applications.rows[0].0,
                &by_change.rows[0].0,
                &by_creation.rows[0].0,
            ],
        ),
        (Sort::UpdatedAt, vec![&by_name.rows[0].0, &by_creation.rows[0].0]),
        (Sort::CreatedAt, vec![&by_name.rows[0].0, &by_change.rows[0].0]),
    ] {
        for cursor in cursors {
            let answer = read(&world, (sort, Direction::Ascending), &foreign(cursor)).await;
            assert_refused(answer, "after", &format!("{sort:?} after {cursor}"));
        }
    }
    let answer =
        people::projects(read_store, Scope::Everything, &foreign(&of_applications.rows[0].0)).await;
    assert_refused(answer, "after", "projects after an application");
    let users = people::users(read_store, &foreign(&by_creation.rows[0].0)).await;
    assert_refused(users, "after", "users after a trigger");
}

#[tokio::test]
async fn a_cursor_with_a_time_that_no_database_can_hold_is_refused() {
    let store = TestStore::new().await;
    let world = crowd(&store).await;
    let sort = (Sort::UpdatedAt, Direction::Ascending);
    let page = read(&world, sort, &first(1)).await.unwrap();
    let good = URL_SAFE_NO_PAD.decode(&page.rows[0].0).unwrap();
    let good = String::from_utf8(good).unwrap();
    let time = at(0).timestamp_millis().to_string();
    let time = if good.contains(&time) { time } else { at(1).timestamp_millis().to_string() };
    for far in [i64::MIN, -8_000_000_000_000_000, 8_000_000_000_000_000, i64::MAX] {
        let cursor = URL_SAFE_NO_PAD.encode(good.replace(&time, &far.to_string()));
        let request = PageRequest { after: Some(cursor), ..first(5) };
        assert_refused(read(&world, sort, &request).await, "after", &far.to_string());
    }
}
