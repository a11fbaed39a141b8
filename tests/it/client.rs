//! Clients of a server, over real connections: HTTP, and GraphQL over a websocket.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use trigger_manager::egress::{AddressPolicy, Egress, EgressConfig, Outgoing, Sent};

/// How long anything that must happen may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The id that every request carries.
pub const REQUEST_ID: &str = "request-of-the-tests";

/// What a server answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The data of a GraphQL answer without errors.
    pub fn data(&self) -> Value {
        let mut json = self.json();
        assert!(json.get("errors").is_none(), "{}", self.body);
        json["data"].take()
    }

    /// The code of the first error of GraphQL, or of a problem document.
    pub fn code(&self) -> String {
        let json = self.json();
        let code = json.pointer("/errors/0/extensions/code").or_else(|| json.get("code"));
        code.and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// A client of one server with the credentials of one caller.
#[derive(Clone)]
pub struct Client {
    base: String,
    authorization: Option<String>,
    http: Egress,
    policy: AddressPolicy,
}

impl Client {
    /// One without credentials, of the server at `base`, for example `http://127.0.0.1:8080`.
    pub fn new(base: &str) -> Self {
        let policy = AddressPolicy::new(vec!["127.0.0.0/8".parse().unwrap()]);
        let http = Egress::new(EgressConfig {
            policy: policy.clone(),
            timeout: PATIENCE,
            max_response_bytes: 16 << 20,
            max_idle_per_host: 4,
            user_agent: "tests".to_owned(),
        });
        Self { base: base.to_owned(), authorization: None, http: http.unwrap(), policy }
    }

    /// The same client with a token.
    pub fn bearer(&self, token: &str) -> Self {
        self.authorized(&format!("Bearer {token}"))
    }

    /// The same client with a header `Authorization`.
    pub fn authorized(&self, header: &str) -> Self {
        Self { authorization: Some(header.to_owned()), ..self.clone() }
    }

    pub async fn graphql(&self, query: &str, variables: Value) -> Answer {
        self.post("/graphql", &json!({ "query": query, "variables": variables })).await
    }

    /// The data of a document that must succeed.
    pub async fn data(&self, query: &str, variables: Value) -> Value {
        self.graphql(query, variables).await.data()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.try_send(Method::GET, path, Bytes::new()).await.unwrap()
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.try_send(Method::DELETE, path, Bytes::new()).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        let body = serde_json::to_vec(body).unwrap();
        self.try_send(Method::POST, path, body.into()).await.unwrap()
    }

    /// Any body with any headers, sent with POST.
    pub async fn post_raw(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Answer {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            all.insert(name, HeaderValue::from_str(value).unwrap());
        }
        self.send_with(Method::POST, path, all, body).await.unwrap()
    }

    /// Any request; an error is a sentence of why there is no answer.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Answer, String> {
        let mut headers = HeaderMap::new();
        if !body.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self.send_with(method, path, headers, body).await
    }

    async fn send_with(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, String> {
        headers.insert("x-request-id", HeaderValue::from_static(REQUEST_ID));
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
        }
        let url = self.policy.parse_url(&format!("{}{path}", self.base)).unwrap();
        match self.http.send(Outgoing { method, url, headers, body, timeout: None }).await {
            Sent::Answered { status, headers, body, complete, .. } => {
                assert!(complete, "an answer is larger than the tests expect");
                Ok(Answer { status, headers, body: String::from_utf8(body.into()).unwrap() })
            }
            Sent::Failed { detail, .. } => Err(detail),
        }
    }

    /// Asks until `wanted` finds what it looks for in the answer; gives up after [`PATIENCE`].
    pub async fn until<T>(
        &self,
        query: &str,
        variables: Value,
        wanted: impl Fn(&Value) -> Option<T>,
    ) -> T {
        let mut last = Value::Null;
        let asking = async {
            let mut pause = tokio::time::interval(Duration::from_millis(50));
            loop {
                pause.tick().await;
                last = self.data(query, variables.clone()).await;
                if let Some(found) = wanted(&last) {
                    return found;
                }
            }
        };
        let found = timeout(PATIENCE, asking).await;
        found.unwrap_or_else(|_| panic!("this never came about; the last answer is {last}"))
    }

    /// Begins a subscription and waits until the server runs it.
    pub async fn subscribe(&self, query: &str, variables: Value) -> Subscription {
        let address = format!("{}/graphql", self.base.replacen("http", "ws", 1));
        let mut request = address.into_client_request().unwrap();
        let protocol = HeaderValue::from_static("graphql-transport-ws");
        request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        let mut subscription = Subscription(connect_async(request).await.unwrap().0);
        let payload = match &self.authorization {
            Some(authorization) => json!({ "Authorization": authorization }),
            None => json!({}),
        };
        subscription.send(json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(subscription.next().await["type"], "connection_ack");
        let payload = json!({ "query": query, "variables": variables });
        subscription.send(json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
        subscription
    }
}

/// A subscription on a connection of its own.
pub struct Subscription(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Subscription {
    async fn send(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Returns once the server has taken up what was sent before: it handles messages in order.
    pub async fn settled(mut self) -> Self {
        let payload = json!({ "query": "{ __typename }" });
        self.send(json!({ "type": "subscribe", "id": "2", "payload": payload })).await;
        loop {
            let message = self.next().await;
            if message["id"] == "2" && message["type"] == "complete" {
                return self;
            }
            assert!(message["id"] == "2", "{message}");
        }
    }

    /// The next message.
    pub async fn next(&mut self) -> Value {
        loop {
            let message = timeout(PATIENCE, self.0.next()).await.expect("no message came");
            match message.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The data of the next event.
    pub async fn event(&mut self) -> Value {
        let mut message = self.next().await;
        assert_eq!(message["type"], "next", "{message}");
        assert!(message["payload"].get("errors").is_none(), "{message}");
        message["payload"]["data"].take()
    }
}
