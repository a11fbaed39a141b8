//! Loads together what the resolvers of one request ask for one by one.
//!
//! A list of rows, each with what it belongs to, costs one statement a level. What is being loaded
//! is not loaded again by who asks later: it waits for the same answer.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, poll_fn};
use futures::task::AtomicWaker;

use crate::error::Error;

/// The most keys of one statement.
const KEYS_MAX: usize = 1_000;

/// What was found. Its error is shared by all who waited for it.
pub(super) type Loaded<K, V> = Result<HashMap<K, V>, Arc<Error>>;

/// Loads values by key `K`. A key without a value is left out of the answer.
pub(super) trait Load<K>: Send + Sync + 'static {
    /// What is loaded.
    type Value: Clone + Send + Sync + 'static;

    /// Reads the values of `keys`, which are different ones, up to 1000.
    fn load(&self, keys: &[K]) -> impl Future<Output = Loaded<K, Self::Value>> + Send;
}

/// A key of some kind.
pub(super) trait Key: Clone + Eq + Hash + Send + Sync + 'static {}
impl<K: Clone + Eq + Hash + Send + Sync + 'static> Key for K {}

/// The loads of one request.
pub(super) struct Batches<L> {
    loader: Arc<L>,
    keeps: bool,
    kinds: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
}

type Answer<K, V> = Shared<BoxFuture<'static, Result<Arc<HashMap<K, V>>, Arc<Error>>>>;

/// What is asked for by one kind of key.
struct Kind<K, V> {
    /// The load that each key is in.
    answers: HashMap<K, Answer<K, V>>,
    /// The load that has not begun yet, and its keys.
    next: Option<(Answer<K, V>, Vec<K>)>,
}

impl<L: Send + Sync + 'static> Batches<L> {
    /// Loads through `loader`. With `keeps`, what was loaded once is answered until the end of the
    /// request; else each asker finds it as it is then.
    pub(super) fn new(loader: L, keeps: bool) -> Self {
        Self { loader: Arc::new(loader), keeps, kinds: Mutex::default() }
    }

    /// The value of `key`, loaded with those that others ask for before this task yields; none when
    /// there is none.
    pub(super) async fn load_one<K: Key>(&self, key: K) -> Result<Option<L::Value>, Arc<Error>>
    where
        L: Load<K>,
    {
        let answer = self.answer(&key);
        Ok(answer.await?.get(&key).cloned())
    }

    fn answer<K: Key>(&self, key: &K) -> Answer<K, L::Value>
    where
        L: Load<K>,
    {
        let shared = self.kind::<K>();
        let mut kind = lock(&shared);
        if let Some(answer) = kind.answers.get(key) {
            return answer.clone();
        }
        let begin = || (self.begin(Arc::downgrade(&shared)), Vec::new());
        let (answer, keys) = kind.next.get_or_insert_with(begin);
        keys.push(key.clone());
        let answer = answer.clone();
        kind.answers.insert(key.clone(), answer.clone());
        answer
    }

    fn kind<K: Key>(&self) -> Arc<Mutex<Kind<K, L::Value>>>
    where
        L: Load<K>,
    {
        let mut kinds = lock(&self.kinds);
        let new =
            || Arc::new(Mutex::new(Kind::<K, L::Value> { answers: HashMap::new(), next: None }));
        let kind = kinds.entry(TypeId::of::<K>()).or_insert_with(|| Box::new(new()));
        kind.downcast_ref::<Arc<Mutex<Kind<K, L::Value>>>>().cloned().unwrap_or_else(new)
    }

    /// The load of the keys that are asked for until everybody who can ask has asked. It belongs to
    /// the request: `kind` is gone when the request is.
    fn begin<K: Key>(&self, kind: Weak<Mutex<Kind<K, L::Value>>>) -> Answer<K, L::Value>
    where
        L: Load<K>,
    {
        let (loader, keeps) = (Arc::clone(&self.loader), self.keeps);
        let load = async move {
            yielded().await;
            let keys = kind.upgrade().and_then(|kind| lock(&kind).next.take()).map(|next| next.1);
            let keys = keys.unwrap_or_default();
            let found = load_all(&*loader, &keys).await;
            if let Some(kind) = kind.upgrade().filter(|_| !keeps) {
                let mut kind = lock(&kind);
                keys.iter().for_each(|key| drop(kind.answers.remove(key)));
            }
            found.map(Arc::new)
        };
        load.boxed().shared()
    }
}

async fn load_all<K: Key, L: Load<K>>(loader: &L, keys: &[K]) -> Loaded<K, L::Value> {
    let mut found = HashMap::with_capacity(keys.len());
    for keys in keys.chunks(KEYS_MAX) {
        found.extend(loader.load(keys).await?);
    }
    Ok(found)
}

/// Ends when the task that awaits it has yielded, however often it is polled until then: all of the
/// task's branches have been polled once.
async fn yielded() {
    let (turn, mut asked) = (Arc::new(Turn::default()), false);
    let mut next = pin!(tokio::task::yield_now());
    let ended = poll_fn(|context| {
        turn.waker.register(context.waker());
        if !std::mem::replace(&mut asked, true) {
            let waker = Waker::from(Arc::clone(&turn));
            let _ = next.as_mut().poll(&mut Context::from_waker(&waker));
        }
        if turn.over.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    });
    ended.await;
}

/// A task's turn, which is over when the runtime wakes it again.
#[derive(Default)]
struct Turn {
    over: AtomicBool,
    waker: AtomicWaker,
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.over.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// A panic of somebody else leaves nothing half-done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    type Asked = Arc<Mutex<Vec<Vec<u32>>>>;

    /// Doubles numbers up to 9,999, and writes down what it was asked for. Fails once if told so.
    struct Doubler {
        asked: Asked,
        gate: Semaphore,
        fails: Mutex<bool>,
    }

    impl Load<u32> for Doubler {
        type Value = u32;

        async fn load(&self, keys: &[u32]) -> Loaded<u32, u32> {
            lock(&self.asked).push(keys.to_vec());
            let _passed = self.gate.acquire().await.map_err(Error::internal)?;
            if std::mem::take(&mut *lock(&self.fails)) {
                return Err(Error::Busy.into());
            }
            Ok(keys.iter().filter(|key| **key < 10_000).map(|key| (*key, key * 2)).collect())
        }
    }

    fn doubler(keeps: bool, gate: usize) -> (Arc<Batches<Doubler>>, Asked) {
        let asked = Asked::default();
        let gate = Semaphore::new(gate);
        let doubler = Doubler { asked: Arc::clone(&asked), gate, fails: Mutex::new(false) };
        (Arc::new(Batches::new(doubler, keeps)), asked)
    }

    #[tokio::test]
    async fn what_is_asked_for_together_is_loaded_at_once() {
        let (batches, asked) = doubler(true, 1);
        let found = join_all([3, 1, 3, 10_000].map(|key| batches.load_one(key))).await;
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        assert_eq!(found, [Some(6), Some(2), Some(6), None]);
        assert_eq!(*lock(&asked), [vec![3, 1, 10_000]]);
    }

    #[tokio::test]
    async fn what_is_being_loaded_is_not_loaded_again() {
        let (batches, asked) = doubler(false, 0);
        let ask = |key| {
            let batches = Arc::clone(&batches);
            tokio::spawn(async move { batches.load_one(key).await.unwrap() })
        };
        let first = ask(1);
        while lock(&asked).is_empty() {
            tokio::task::yield_now().await;
        }
        let (second, third) = (ask(1), ask(2));
        while lock(&asked).len() < 2 {
            tokio::task::yield_now().await;
        }
        batches.loader.gate.add_permits(1);
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Some(2), Some(2)));
        assert_eq!(third.await.unwrap(), Some(4));
        assert_eq!(*lock(&asked), [[1], [2]]);
    }

    #[tokio::test]
    async fn what_was_loaded_is_kept_only_if_wanted() {
        for (keeps, loads) in [(true, 1), (false, 2)] {
            let (batches, asked) = doubler(keeps, 1);
            assert_eq!(batches.load_one(1).await.unwrap(), Some(2));
            assert_eq!(batches.load_one(1).await.unwrap(), Some(2));
            assert_eq!(lock(&asked).len(), loads, "keeps: {keeps}");
        }
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_who_waited_and_kept_only_if_wanted() {
        for keeps in [true, false] {
            let (batches, _) = doubler(keeps, 1);
            *lock(&batches.loader.fails) = true;
            for found in join_all([1, 2].map(|key| batches.load_one(key))).await {
                assert!(matches!(&*found.unwrap_err(), Error::Busy));
            }
            assert_eq!(batches.load_one(1).await.is_err(), keeps);
        }
    }

    #[tokio::test]
    async fn many_keys_are_loaded_in_several_statements() {
        let (batches, asked) = doubler(true, 1);
        let found = join_all((0..2_500).map(|key| batches.load_one(key))).await;
        assert!(found.into_iter().zip(0..).all(|(found, key)| found.unwrap() == Some(key * 2)));
        let loads: Vec<_> = lock(&asked).iter().map(Vec::len).collect();
        assert_eq!(loads, [1_000, 1_000, 500]);
    }

    #[tokio::test]
    async fn nothing_outlives_the_request() {
        let (batches, asked) = doubler(true, 0);
        let mut load = Box::pin(batches.load_one(1));
        while lock(&asked).is_empty() {
            assert!(futures::poll!(&mut load).is_pending());
            tokio::task::yield_now().await;
        }
        drop(load);
        drop(batches);
        assert_eq!(Arc::strong_count(&asked), 1);
    }
}
