//! Backends that want to hold a slot, a connection or memory.

use bytes::Bytes;

use super::backend::{Backend, Seen, Step};
use super::{AMPLE, CAP, SHORT, allowing, config, egress, kind, post_to};
use crate::egress::{Egress, Sending, Sent};

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

async fn answer(script: &'static [Step]) -> Sent {
    let backend = Backend::start(script).await;
    egress(AMPLE).send(post_to(backend.address)).await
}

/// The backend is still there when the deadline passes, and finds itself cut off.
async fn assert_times_out(script: &'static [Step]) {
    let mut backend = Backend::start(script).await;
    let sent = egress(SHORT).send(post_to(backend.address)).await;
    assert_eq!(kind(&sent), "timeout", "{sent:?}");
    assert!(matches!(sent, Sent::Failed { sent: Sending::Unknown, .. }), "{sent:?}");
    assert_eq!(backend.next().await, Seen::Connected);
    assert!(matches!(backend.next().await, Seen::Request(_)));
    assert_eq!(backend.next().await, Seen::Gone);
}

fn assert_failed(sent: &Sent, expected: &str) {
    assert_eq!(kind(sent), expected, "{sent:?}");
    let Sent::Failed { sent, detail, .. } = sent else { unreachable!() };
    assert_eq!(*sent, Sending::Unknown);
    assert!(!detail.is_empty() && !detail.contains("http://"), "{detail}");
}

#[tokio::test]
async fn silence_times_out() {
    assert_times_out(&[Step::Stall]).await;
}

#[tokio::test]
async fn half_a_head_times_out() {
    assert_times_out(&[Step::Send(b"HTTP/1.1 200 OK\r\ncontent-le"), Step::Stall]).await;
}

#[tokio::test]
async fn a_head_that_drips_times_out() {
    assert_times_out(&[Step::Send(b"HTTP/1.1 200 OK\r\nx: "), Step::Drip(b"a")]).await;
}

#[tokio::test]
async fn a_body_that_stalls_times_out_whatever_its_status() {
    assert_times_out(&[
        Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"),
        Step::Stall,
    ])
    .await;
    assert_times_out(&[Step::Send(CHUNKED), Step::Send(b"4\r\nhalf\r\n"), Step::Stall]).await;
}

#[tokio::test]
async fn a_body_that_drips_times_out() {
    assert_times_out(&[Step::Send(CHUNKED), Step::Drip(b"1\r\nx\r\n")]).await;
}

#[tokio::test]
async fn endless_informational_answers_time_out() {
    assert_times_out(&[Step::Drip(b"HTTP/1.1 100 Continue\r\n\r\n")]).await;
    assert_times_out(&[Step::Drip(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")]).await;
}

#[tokio::test]
async fn a_request_may_have_a_shorter_deadline_than_the_client() {
    let backend = Backend::start(&[Step::Stall]).await;
    let mut request = post_to(backend.address);
    request.timeout = Some(SHORT);
    let sent = egress(AMPLE).send(request).await;
    assert_eq!(kind(&sent), "timeout", "{sent:?}");
}

#[tokio::test]
async fn a_time_out_says_how_far_the_answer_came() {
    let silent = Backend::start(&[Step::Stall]).await;
    let Sent::Failed { detail, .. } = egress(SHORT).send(post_to(silent.address)).await else {
        panic!("answered")
    };
    assert!(detail.starts_with("no answer"), "{detail}");
    let half = Backend::start(&[Step::Send(CHUNKED), Step::Stall]).await;
    let Sent::Failed { detail, .. } = egress(SHORT).send(post_to(half.address)).await else {
        panic!("answered")
    };
    assert!(detail.starts_with("answered 200"), "{detail}");
}

#[tokio::test]
async fn an_endless_body_is_cut_at_the_cap_and_its_status_counts() {
    let heads: [(&'static [Step], u16); 3] = [
        (&[Step::Send(b"HTTP/1.1 200 OK\r\n\r\n"), Step::SendForever(&[b'x'; 4096])], 200),
        (
            &[
                Step::Send(b"HTTP/1.1 410 Gone\r\ncontent-length: 99999999999\r\n\r\n"),
                Step::SendForever(&[b'x'; 4096]),
            ],
            410,
        ),
        (&[Step::Send(CHUNKED), Step::SendForever(b"8\r\nxxxxxxxx\r\n")], 200),
    ];
    for (script, expected) in heads {
        let mut backend = Backend::start(script).await;
        let sent = egress(AMPLE).send(post_to(backend.address)).await;
        let Sent::Answered { status, body, complete, .. } = sent else { panic!("{sent:?}") };
        assert_eq!((status, complete), (expected, false));
        assert_eq!(body, Bytes::from(vec![b'x'; CAP]));
        assert_eq!(backend.next().await, Seen::Connected);
        assert!(matches!(backend.next().await, Seen::Request(_)));
        assert_eq!(backend.next().await, Seen::Gone);
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_cap_is_complete() {
    const FULL: &[Step] = &[
        Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 65536\r\n\r\n"),
        Step::Send(&[b'x'; CAP]),
    ];
    const OVER: &[Step] = &[
        Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 65537\r\n\r\n"),
        Step::Send(&[b'x'; CAP + 1]),
    ];
    for (script, whole) in [(FULL, true), (OVER, false)] {
        let Sent::Answered { body, complete, .. } = answer(script).await else { panic!("failed") };
        assert_eq!((body.len(), complete), (CAP, whole));
    }
}

#[tokio::test]
async fn the_cap_is_the_configured_one() {
    const BODY: &[Step] = &[Step::Send(
        b"HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n012345678901234567890123456789",
    )];
    for (cap, whole) in [(29, false), (30, true)] {
        let mut config = config(allowing(&["127.0.0.0/8"]), AMPLE);
        config.max_response_bytes = cap;
        let backend = Backend::start(BODY).await;
        let sent = Egress::new(config).unwrap().send(post_to(backend.address)).await;
        let Sent::Answered { body, complete, .. } = sent else { panic!("{sent:?}") };
        assert_eq!((body.len(), complete), (cap, whole));
    }
}

#[tokio::test]
async fn a_head_larger_than_the_cap_is_refused() {
    const LARGE: &[Step] = &[
        Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: "),
        Step::Send(&[b'x'; CAP]),
        Step::Send(b"\r\n\r\n"),
    ];
    assert_failed(&answer(LARGE).await, "protocol");
}

#[tokio::test]
async fn an_endless_head_is_refused() {
    let one_field = &[Step::Send(b"HTTP/1.1 200 OK\r\nx: "), Step::SendForever(&[b'x'; 4096])];
    assert_failed(&answer(one_field).await, "protocol");
    let many = &[Step::Send(b"HTTP/1.1 200 OK\r\n"), Step::SendForever(b"x: y\r\n")];
    assert_failed(&answer(many).await, "protocol");
}

#[tokio::test]
async fn a_connection_that_ends_early_is_closed() {
    let scripts: [&'static [Step]; 6] = [
        &[Step::Close],
        &[Step::Reset],
        &[Step::Send(b"HTTP/1.1 200 O"), Step::Close],
        &[Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"), Step::Close],
        &[Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"), Step::Reset],
        &[Step::Send(CHUNKED), Step::Send(b"4\r\nhalf\r\n"), Step::Close],
    ];
    for script in scripts {
        assert_failed(&answer(script).await, "closed");
    }
}

#[tokio::test]
async fn what_is_not_http_is_a_protocol_failure() {
    let scripts: [&'static [Step]; 7] = [
        &[Step::Send(b"SSH-2.0-OpenSSH_9.2\r\n"), Step::Stall],
        &[Step::Send(b"220 smtp ready\r\n"), Step::Stall],
        &[Step::Send(b"HTTP/9.9 200 OK\r\n\r\n"), Step::Stall],
        &[Step::Send(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), Step::Stall],
        &[Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"), Step::Stall],
        &[
            Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"),
            Step::Stall,
        ],
        &[Step::Send(CHUNKED), Step::Send(b"zz\r\nnot a chunk\r\n"), Step::Stall],
    ];
    for script in scripts {
        assert_failed(&answer(script).await, "protocol");
    }
}

#[tokio::test]
async fn a_chunk_size_that_overflows_is_a_protocol_failure() {
    let script = &[Step::Send(CHUNKED), Step::Send(b"fffffffffffffffff\r\nx"), Step::Stall];
    assert_failed(&answer(script).await, "protocol");
}
