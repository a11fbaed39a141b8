//! Sessions that begin while their password is being changed.

use std::sync::{Arc, Mutex};

use chrono::Duration;
use futures::future::BoxFuture;
use secrecy::SecretString;

use super::tests::sign_in;
use crate::app::test_app::{PASSWORD, TestApp, bearer};
use crate::app::{App, UpdateUser};
use crate::checkpoint::{Checkpoint, Point};
use crate::clock::ManualClock;
use crate::error::Result;

/// Signs in, once, when a transaction is to begin: a password's hash has been made by then.
struct Between {
    app: App,
    clock: ManualClock,
    token: Mutex<Option<SecretString>>,
}

impl Checkpoint for Between {
    fn pass(&self, point: Point) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if point == Point::BeforeBegin && self.token.lock().unwrap().is_none() {
                self.clock.advance(Duration::milliseconds(80));
                let signed_in = sign_in(&self.app, "ada@example.com", PASSWORD).await?;
                *self.token.lock().unwrap() = Some(signed_in.token);
                self.clock.advance(Duration::milliseconds(1));
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_session_that_begins_with_the_old_password_while_it_is_changed_ends_with_it() {
    for by_administrator in [false, true] {
        let app = TestApp::new().await;
        let (user, caller) = app.person("ada@example.com", true).await;
        let beside = app.beside("a passphrase of the tests", "UTC", &[]).await;
        let (clock, token) = (app.clock.clone(), Mutex::default());
        let between = Arc::new(Between { app: beside, clock, token });
        let mut changing = app.beside("a passphrase of the tests", "UTC", &[]).await;
        changing.store = changing.store.clone().with_checkpoint(between.clone());
        let new = SecretString::from("another long passphrase");
        if by_administrator {
            let update = UpdateUser { password: Some(new), ..Default::default() };
            changing.update_user(&caller, user.id, update).await.unwrap();
        } else {
            let old = SecretString::from(PASSWORD);
            changing.change_password(&caller, old, new).await.unwrap();
        }
        let token = between.token.lock().unwrap().take().unwrap();
        let refused = app.authenticate(Some(&bearer(&token))).await.unwrap_err();
        assert_eq!(refused.code(), "UNAUTHENTICATED", "by an administrator: {by_administrator}");
    }
}
