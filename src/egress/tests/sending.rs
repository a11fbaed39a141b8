//! What goes out, what comes back untouched, and what is kept open.

use bytes::Bytes;
use tokio::net::TcpListener;

use super::backend::{Backend, Seen, Step};
use super::{AMPLE, allowing, config, egress, kind, post, post_to};
use crate::egress::{Egress, Sending, Sent};

async fn answered(script: &'static [Step]) -> (u16, http::HeaderMap, Bytes) {
    let backend = Backend::start(script).await;
    match egress(AMPLE).send(post_to(backend.address)).await {
        Sent::Answered { status, headers, body, complete: true, .. } => (status, headers, body),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_request_arrives_as_it_was_given() {
    let mut backend = Backend::start(&[Step::Send(b"HTTP/1.1 204 No Content\r\n\r\n")]).await;
    let mut request = post(&format!("http://{}/hook?a=b", backend.address));
    request.headers.insert("x-trigger-attempt", "3".parse().unwrap());
    request.body = Bytes::from_static(br#"{"run_key":"daily"}"#);
    assert_eq!(kind(&egress(AMPLE).send(request).await), "answered");
    assert_eq!(backend.next().await, Seen::Connected);
    let Seen::Request(text) = backend.next().await else { panic!("no request") };
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{head}");
    for line in ["x-trigger-attempt: 3", "content-length: 19", "user-agent: egress-test"] {
        assert!(head.lines().any(|given| given == line), "{line} is not in {head}");
    }
    for absent in ["accept-encoding", "referer", "cookie", "transfer-encoding"] {
        assert!(!head.contains(absent), "{absent} is in {head}");
    }
    assert_eq!(body, r#"{"run_key":"daily"}"#);
}

#[tokio::test]
async fn every_status_is_an_answer() {
    let scripts: [(&'static [Step], u16); 5] = [
        (&[Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")], 200),
        (&[Step::Send(b"HTTP/1.1 410 Gone\r\ncontent-length: 2\r\n\r\nok")], 410),
        (&[Step::Send(b"HTTP/1.1 429 Slow\r\ncontent-length: 2\r\n\r\nok")], 429),
        (&[Step::Send(b"HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\nok")], 500),
        (&[Step::Send(b"HTTP/1.0 599 \r\n\r\nok"), Step::Close], 599),
    ];
    for (script, expected) in scripts {
        let (status, _, body) = answered(script).await;
        assert_eq!((status, body.as_ref()), (expected, b"ok".as_ref()));
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    const MOVED: &[Step] = &[Step::Send(
        b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
    )];
    let mut backend = Backend::start(MOVED).await;
    let sent = egress(AMPLE).send(post_to(backend.address)).await;
    let Sent::Answered { status, headers, .. } = sent else { panic!("{sent:?}") };
    assert_eq!((status, headers["location"].as_bytes()), (307, b"/elsewhere".as_ref()));
    let requests = backend.so_far().iter().filter(|seen| matches!(seen, Seen::Request(_))).count();
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn a_compressed_body_is_left_alone() {
    let (_, headers, body) = answered(&[Step::Send(
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\n\x1f\x8b\x08\0\0",
    )])
    .await;
    assert_eq!(headers["content-encoding"], "gzip");
    assert_eq!(body.as_ref(), b"\x1f\x8b\x08\0\0");
}

#[tokio::test]
async fn informational_answers_are_passed_over() {
    let (status, headers, _) = answered(&[Step::Send(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx-early: 1\r\n\r\n\
          HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
    )])
    .await;
    assert_eq!(status, 202);
    assert!(!headers.contains_key("x-early"));
}

#[tokio::test]
async fn an_offer_to_switch_protocols_is_no_success() {
    const SWITCH: &[Step] = &[
        Step::Send(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        ),
        Step::Stall,
    ];
    let mut backend = Backend::start(SWITCH).await;
    let sent = egress(AMPLE).send(post_to(backend.address)).await;
    assert!(!matches!(sent, Sent::Answered { status: 200..300, .. }), "{sent:?}");
    drop(sent);
    while backend.next().await != Seen::Gone {}
}

#[tokio::test]
async fn chunks_are_put_together_and_trailers_left_out() {
    let (_, headers, body) = answered(&[Step::Send(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
          3\r\none\r\n3;ext=1\r\ntwo\r\n5\r\nthree\r\n0\r\nx-trailer: 1\r\n\r\n",
    )])
    .await;
    assert_eq!(body.as_ref(), b"onetwothree");
    assert!(!headers.contains_key("x-trailer"));
}

#[tokio::test]
async fn a_connection_is_used_again() {
    const OK: &[Step] = &[Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")];
    let mut backend = Backend::start(OK).await;
    let egress = egress(AMPLE);
    for _ in 0..3 {
        assert_eq!(kind(&egress.clone().send(post_to(backend.address)).await), "answered");
    }
    let seen = backend.so_far();
    assert_eq!(seen.iter().filter(|seen| **seen == Seen::Connected).count(), 1, "{seen:?}");
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[tokio::test]
async fn a_closed_port_is_a_failed_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sent = egress(AMPLE).send(post_to(address)).await;
    assert_eq!(kind(&sent), "connect");
    let Sent::Failed { sent, detail, .. } = sent else { unreachable!() };
    assert_eq!(sent, Sending::NotSent);
    assert!(detail.contains("refused"), "{detail}");
}

#[tokio::test]
async fn a_backend_without_tls_behind_https_is_a_tls_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plain = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad\r\n\r\n").await
    });
    let sent = egress(AMPLE).send(post(&format!("https://{address}/"))).await;
    assert_eq!(kind(&sent), "tls", "{sent:?}");
    assert!(matches!(sent, Sent::Failed { sent: Sending::NotSent, .. }));
    plain.await.unwrap().unwrap();
}

#[test]
fn a_user_agent_that_is_no_header_value_is_an_error() {
    let mut config = config(allowing(&[]), AMPLE);
    config.user_agent = "line\nbreak".to_owned();
    assert_eq!(Egress::new(config).err().unwrap().code(), "INTERNAL");
}
