//! A backend's HTTP server on loopback: answers as it is told, and remembers every request.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

/// How a backend answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// With this status.
    Status(u16),
    /// With this status and a `Retry-After`.
    RetryAfter(u16, &'static str),
    /// Never.
    Hang,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    /// A header's text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }
}

/// What happens while a request is being answered.
type Meanwhile = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

#[derive(Default)]
struct Script {
    meanwhile: HashMap<String, Arc<Meanwhile>>,
    answers: HashMap<String, VecDeque<Answer>>,
    always: HashMap<String, Answer>,
    received: Vec<Received>,
}

/// The server. Answers 200 unless told otherwise.
#[derive(Clone)]
pub struct Receiver {
    base: String,
    script: Arc<Mutex<Script>>,
}

impl Receiver {
    pub async fn start() -> Self {
        let script = Arc::<Mutex<Script>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(script.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base, script }
    }

    /// The address of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The next requests to `path` get these answers, in turn.
    pub fn next(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        let mut script = self.script.lock().unwrap();
        script.answers.entry(path.to_owned()).or_default().extend(answers);
    }

    /// Requests to `path` get this answer from now on.
    pub fn always(&self, path: &str, answer: Answer) {
        self.script.lock().unwrap().always.insert(path.to_owned(), answer);
    }

    /// Lets something happen while a request to `path` is being answered.
    pub fn during(
        &self,
        path: &str,
        meanwhile: impl Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static,
    ) {
        let meanwhile: Meanwhile = Box::new(meanwhile);
        self.script.lock().unwrap().meanwhile.insert(path.to_owned(), Arc::new(meanwhile));
    }

    /// What has arrived so far, in the order of arrival.
    pub fn received(&self) -> Vec<Received> {
        self.script.lock().unwrap().received.clone()
    }

    /// Waits until what has arrived is what a test waits for.
    pub async fn until(&self, wanted: impl Fn(&[Received]) -> bool) {
        let looking = async {
            let mut pause = tokio::time::interval(Duration::from_millis(20));
            while !wanted(&self.received()) {
                pause.tick().await;
            }
        };
        if tokio::time::timeout(crate::client::PATIENCE, looking).await.is_err() {
            panic!("this never arrived; what did: {:#?}", self.received());
        }
    }

    /// What has arrived at `path`.
    pub fn received_at(&self, path: &str) -> Vec<Received> {
        self.received().into_iter().filter(|received| received.path == path).collect()
    }
}

async fn answer(
    State(script): State<Arc<Mutex<Script>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path().to_owned();
    let meanwhile = script.lock().unwrap().meanwhile.get(&path).cloned();
    if let Some(meanwhile) = meanwhile {
        meanwhile().await;
    }
    let answer = {
        let mut script = script.lock().unwrap();
        script.received.push(Received { path: path.clone(), headers, body });
        let next = script.answers.get_mut(&path).and_then(VecDeque::pop_front);
        next.or_else(|| script.always.get(&path).cloned()).unwrap_or(Answer::Status(200))
    };
    let status = |status| StatusCode::from_u16(status).unwrap();
    match answer {
        Answer::Status(code) => status(code).into_response(),
        Answer::RetryAfter(code, value) => (status(code), [("retry-after", value)]).into_response(),
        Answer::Hang => std::future::pending().await,
    }
}
