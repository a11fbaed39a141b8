//! The websocket protocol.

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::*;

pub(super) struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    async fn connect(
        address: SocketAddr,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, Box<WsError>> {
        let mut request = format!("ws://{address}/graphql").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        Ok(Self(connect_async(request).await.map_err(Box::new)?.0))
    }

    async fn new(address: SocketAddr) -> Self {
        let protocol = [("sec-websocket-protocol", "graphql-transport-ws")];
        Self::connect(address, &protocol).await.unwrap()
    }

    /// Introduced with the administrator's token.
    pub(super) async fn ready(server: &Server) -> Self {
        Self::ready_as(server, &server.bearer()).await
    }

    pub(super) async fn ready_as(server: &Server, bearer: &str) -> Self {
        Self::ready_at(server.listen().await, bearer).await
    }

    async fn ready_at(address: SocketAddr, bearer: &str) -> Self {
        let mut client = Self::new(address).await;
        let payload = json!({ "Authorization": bearer });
        client.send(json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(client.next().await, json!({ "type": "connection_ack" }));
        client
    }

    async fn send(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    pub(super) async fn subscribe(&mut self, id: &str, query: &str) {
        let payload = json!({ "query": query });
        self.send(json!({ "type": "subscribe", "id": id, "payload": payload })).await;
    }

    pub(super) async fn next(&mut self) -> Value {
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits until `count` subscriptions of this server watch.
    pub(super) async fn watching(&mut self, server: &Server, count: usize) {
        while server.app.live.watchers() < count {
            tokio::task::yield_now().await;
        }
    }

    /// The code that the server closes with.
    async fn closed(&mut self) -> u16 {
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Close(Some(frame)) => return frame.code.into(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn queries_are_answered_and_completed() {
    let server = Server::new().await;
    let mut client = Client::ready(&server).await;
    client.send(json!({ "type": "ping", "payload": { "a": 1 } })).await;
    assert_eq!(client.next().await, json!({ "type": "pong" }));
    client.subscribe("1", "{ me { email } }").await;
    let data = json!({ "data": { "me": { "email": "admin@localhost" } } });
    assert_eq!(client.next().await, json!({ "type": "next", "id": "1", "payload": data }));
    assert_eq!(client.next().await, json!({ "type": "complete", "id": "1" }));
}

#[tokio::test]
async fn a_document_that_is_refused_ends_in_an_error_message() {
    let server = Server::new().await;
    let mut client = Client::ready(&server).await;
    for query in ["{", "{ nonsense }", &"{a ".repeat(80)] {
        client.subscribe("1", query).await;
        let answer = client.next().await;
        assert_eq!(answer["type"], "error", "{query}");
        assert!(answer["payload"][0]["extensions"]["code"].is_string(), "{answer}");
    }
    // The id is free again, and nothing was left over.
    client.subscribe("1", "{ __typename }").await;
    assert_eq!(client.next().await["type"], "next");
    assert_eq!(client.next().await["type"], "complete");
}

#[tokio::test]
async fn an_anonymous_client_may_connect_and_sees_nothing() {
    let server = Server::new().await;
    let mut client = Client::new(server.listen().await).await;
    client.send(json!({ "type": "connection_init" })).await;
    assert_eq!(client.next().await["type"], "connection_ack");
    client.subscribe("1", "subscription { occurrences(applicationId: 1) { id } }").await;
    let answer = client.next().await;
    assert!(answer.to_string().contains("UNAUTHENTICATED"), "{answer}");
}

#[tokio::test]
async fn each_breach_of_the_protocol_has_its_code() {
    let server = Server::new().await;
    let address = server.listen().await;
    let init = json!({ "type": "connection_init" });
    let early = json!({ "type": "subscribe", "id": "1", "payload": { "query": "{ a }" } });
    let wrong = json!({ "type": "connection_init", "payload": { "authorization": "Bearer x" } });
    for (messages, code) in [
        (vec![early], 4401),
        (vec![wrong], 4403),
        (vec![json!({ "type": "nonsense" })], 4400),
        (vec![init.clone(), init.clone()], 4429),
        (vec![init.clone(), json!({ "type": "subscribe", "id": "1" })], 4400),
        (vec![init.clone(), json!({ "type": "subscribe", "id": "1", "payload": {} })], 4400),
    ] {
        let mut client = Client::new(address).await;
        let acknowledged = messages.len() > 1;
        for message in messages {
            client.send(message).await;
        }
        if acknowledged {
            assert_eq!(client.next().await["type"], "connection_ack");
        }
        assert_eq!(client.closed().await, code);
    }
    let mut other = Client::connect(address, &[]).await.unwrap();
    assert_eq!(other.closed().await, 4406);
}

#[tokio::test]
async fn a_running_id_is_not_used_twice() {
    let server = Server::new().await;
    let application = server.application("p").await;
    let mut client = Client::ready(&server).await;
    let query =
        format!("subscription {{ occurrences(applicationId: \"{application}\") {{ id }} }}");
    client.subscribe("1", &query).await;
    client.subscribe("1", &query).await;
    assert_eq!(client.closed().await, 4409);
}

#[tokio::test]
async fn operations_of_one_connection_are_bounded() {
    let server = Server::with(&[("PFY_GRAPHQL_SUBSCRIPTIONS_PER_CONNECTION", "1")]).await;
    let application = server.application("p").await;
    let mut client = Client::ready(&server).await;
    let query =
        format!("subscription {{ occurrences(applicationId: \"{application}\") {{ id }} }}");
    client.subscribe("1", &query).await;
    client.subscribe("2", "{ __typename }").await;
    let refused = client.next().await;
    assert_eq!((&refused["type"], &refused["id"]), (&json!("error"), &json!("2")));
    client.send(json!({ "type": "complete", "id": "1" })).await;
    client.subscribe("2", "{ __typename }").await;
    assert_eq!(client.next().await["type"], "next");
}

#[tokio::test]
async fn pages_from_elsewhere_may_not_connect() {
    let server = Server::new().await;
    let address = server.listen().await;
    let headers =
        [("sec-websocket-protocol", "graphql-transport-ws"), ("origin", "https://evil.example")];
    let Err(error) = Client::connect(address, &headers).await else { panic!("connected") };
    let WsError::Http(response) = *error else { panic!("{error:?}") };
    assert_eq!(response.status(), 403);
}

/// Serves as a process does, so many connections at once.
async fn serve(server: &Server, room: usize) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (router, stop) = (server.router.clone(), server.app.stopping.clone());
    (address, tokio::spawn(crate::listen::serve(listener, router, room, stop)))
}

#[tokio::test]
async fn a_websocket_keeps_its_place_among_the_connections() {
    let server = Server::new().await;
    let (address, _serving) = serve(&server, 1).await;
    let mut client = Client::ready_at(address, &server.bearer()).await;
    let mut next = TcpStream::connect(address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    next.write_all(request).await.unwrap();
    for _ in 0..100 {
        client.send(json!({ "type": "ping" })).await;
        client.next().await;
    }
    let early = next.try_read(&mut [0]).unwrap_err();
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock, "it waits for a place");
    drop(client);
    let mut answer = String::new();
    next.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_process_that_ends_sends_its_websockets_away_and_waits_for_them() {
    let server = Server::new().await;
    let application = server.application("p").await;
    let (address, serving) = serve(&server, 10).await;
    let mut silent = Client::new(address).await;
    let mut client = Client::ready_at(address, &server.bearer()).await;
    let query =
        format!("subscription {{ occurrences(applicationId: \"{application}\") {{ id }} }}");
    client.subscribe("1", &query).await;
    client.watching(&server, 1).await;
    server.app.stopping.cancel();
    assert_eq!(client.closed().await, 1001, "and no completion, after which nobody comes back");
    assert_eq!(silent.closed().await, 1001);
    serving.await.unwrap();
}

#[tokio::test]
async fn a_mutation_in_flight_ends_before_a_process_does_and_nothing_new_begins() {
    let server = Server::new().await;
    let application = server.application("p").await;
    let (address, serving) = serve(&server, 10).await;
    let mut client = Client::ready_at(address, &server.bearer()).await;
    let query =
        format!("subscription {{ occurrences(applicationId: \"{application}\") {{ id }} }}");
    client.subscribe("watch", &query).await;
    client.watching(&server, 1).await;
    let writer = server.app.store.begin().await.unwrap();
    let create = "mutation { createProject(input: { slug: \"late\", name: \"L\" }) { slug } }";
    client.subscribe("create", create).await;
    client.subscribe("seen", "{ __typename }").await;
    assert_eq!(client.next().await["id"], "seen");
    assert_eq!(client.next().await["id"], "seen");

    server.app.stopping.cancel();
    while server.app.live.watchers() > 0 {
        tokio::task::yield_now().await;
    }
    client.subscribe("new", "{ __typename }").await;
    let refused = client.next().await;
    assert_eq!((&refused["type"], &refused["id"]), (&json!("error"), &json!("new")));
    assert_eq!(refused["payload"][0]["extensions"]["code"], "BUSY", "{refused}");
    assert!(!serving.is_finished());

    drop(writer);
    let made = client.next().await;
    assert_eq!(made["payload"]["data"]["createProject"]["slug"], "late", "{made}");
    assert_eq!(client.next().await, json!({ "type": "complete", "id": "create" }));
    assert_eq!(client.closed().await, 1001);
    serving.await.unwrap();
}
