//! Name servers that lie, mix, change their mind or say nothing.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::backend::{Backend, Seen, Step};
use super::{SHORT, allowing, config, egress_with_names, kind, post, strict};
use crate::egress::resolver::Names;
use crate::egress::{Egress, FailureKind, Sending, Sent};

const OK: &[Step] = &[Step::Send(b"HTTP/1.1 204 No Content\r\n\r\n")];

fn answering(addresses: &[&str]) -> Names {
    let addresses: Vec<IpAddr> = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
    Names::Scripted(Arc::new(move |_| Ok(addresses.clone())))
}

fn unknown() -> Names {
    Names::Scripted(Arc::new(|_| Err(io::Error::other("no such host db.corp.example"))))
}

fn assert_refused(sent: Sent) {
    let Sent::Failed { kind: FailureKind::Refused(refusal), sent, .. } = sent else {
        panic!("{sent:?} is not a refusal");
    };
    assert_eq!(refusal.code, "CALLBACK_ADDRESS_REFUSED");
    assert_eq!(sent, Sending::NotSent);
}

#[tokio::test]
async fn a_name_with_a_private_address_is_refused_without_telling_the_address() {
    for address in ["10.1.2.3", "127.0.0.1", "169.254.169.254", "::1", "fd12::1", "::ffff:10.0.0.1"]
    {
        let egress = egress_with_names(strict(), answering(&[address]));
        let url = strict().parse_url("http://db.example.com/").unwrap();
        let refusal = egress.check(&url).await.unwrap_err();
        assert_eq!(refusal.code, "CALLBACK_ADDRESS_REFUSED");
        assert!(!refusal.reason.contains(address), "{refusal}");
        assert_refused(egress.send(post("http://db.example.com/")).await);
    }
}

#[tokio::test]
async fn one_bad_address_among_good_ones_refuses_the_name() {
    for mix in [["8.8.8.8", "10.0.0.1"], ["10.0.0.1", "8.8.8.8"], ["2606:4700::1", "fe80::1"]] {
        let egress = egress_with_names(strict(), answering(&mix));
        let url = strict().parse_url("http://mixed.example.com/").unwrap();
        assert!(egress.check(&url).await.is_err(), "{mix:?}");
        assert_refused(egress.send(post("http://mixed.example.com/")).await);
    }
}

#[tokio::test]
async fn a_name_that_turns_private_after_registration_is_refused_at_dispatch() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let rebinding = Names::Scripted(Arc::new(move |_| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(vec![IpAddr::from(if first { [8, 8, 8, 8] } else { [127, 0, 0, 1] })])
    }));
    let mut backend = Backend::start(OK).await;
    let egress = egress_with_names(strict(), rebinding);
    let text = format!("http://rebinding.example.com:{}/", backend.address.port());
    assert_eq!(egress.check(&strict().parse_url(&text).unwrap()).await, Ok(()));
    assert_refused(egress.send(post(&text)).await);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(backend.so_far(), []);
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_checked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let names = Names::Scripted(Arc::new(move |name| {
        assert_eq!(name, "backend.example.com");
        count.fetch_add(1, Ordering::SeqCst);
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }));
    let mut backend = Backend::start(OK).await;
    let egress = egress_with_names(allowing(&["127.0.0.1/32"]), names);
    let text = format!("http://backend.example.com:{}/hook", backend.address.port());
    assert_eq!(kind(&egress.send(post(&text)).await), "answered");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(backend.next().await, Seen::Connected);
    let Seen::Request(request) = backend.next().await else { panic!("no request") };
    let host = format!("host: backend.example.com:{}", backend.address.port());
    assert!(request.contains(&host), "{request}");
}

#[tokio::test]
async fn an_address_literal_is_judged_again_at_each_send() {
    let mut backend = Backend::start(OK).await;
    let egress = egress_with_names(strict(), unknown());
    let port = backend.address.port();
    for host in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "169.254.169.254"] {
        assert_refused(egress.send(post(&format!("http://{host}:{port}/"))).await);
    }
    assert_eq!(backend.so_far(), []);
}

#[tokio::test]
async fn an_exception_for_loopback_covers_what_localhost_resolves_to() {
    let policy = allowing(&["127.0.0.0/8"]);
    let url = policy.parse_url("http://localhost/").unwrap();
    let honest = egress_with_names(policy.clone(), answering(&["127.0.0.1"]));
    assert_eq!(honest.check(&url).await, Ok(()));
    let poisoned = egress_with_names(policy, answering(&["10.0.0.1"]));
    assert!(poisoned.check(&url).await.is_err());
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_refused_at_registration_and_fails_at_dispatch() {
    for names in [unknown(), answering(&[])] {
        let egress = egress_with_names(strict(), names);
        let url = strict().parse_url("http://nowhere.example.com/").unwrap();
        let refusal = egress.check(&url).await.unwrap_err();
        assert!(refusal.reason.contains("does not resolve"), "{refusal}");
        let sent = egress.send(post("http://nowhere.example.com/")).await;
        assert_eq!(kind(&sent), "resolve");
        assert!(matches!(sent, Sent::Failed { sent: Sending::NotSent, .. }), "{sent:?}");
    }
}

#[tokio::test]
async fn a_name_server_that_never_answers_costs_the_deadline() {
    let egress = Egress::with_names(config(strict(), SHORT), Names::Silent).unwrap();
    let url = strict().parse_url("http://slow.example.com/").unwrap();
    let refusal = egress.check(&url).await.unwrap_err();
    assert!(refusal.reason.contains("in time"), "{refusal}");
    let sent = egress.send(post("http://slow.example.com/")).await;
    assert_eq!(kind(&sent), "connect");
    assert!(matches!(sent, Sent::Failed { sent: Sending::NotSent, .. }), "{sent:?}");
}

#[tokio::test]
async fn a_literal_is_checked_without_a_name_server() {
    let egress = egress_with_names(allowing(&["10.0.0.0/8"]), Names::Silent);
    let open = allowing(&["0.0.0.0/0"]);
    let check = async |text: &str| egress.check(&open.parse_url(text).unwrap()).await;
    assert_eq!(check("http://8.8.8.8/").await, Ok(()));
    assert_eq!(check("http://10.0.0.1/").await, Ok(()));
    assert!(check("http://192.168.0.1/").await.is_err());
}
