//! Spelling by spelling: what the policy makes of a text.

use super::{allowing, strict};
use crate::error::Error;

const REFUSED: &str = "CALLBACK_ADDRESS_REFUSED";
const INVALID: &str = "CALLBACK_URL_INVALID";

fn code(networks: &[&str], text: &str) -> &'static str {
    match allowing(networks).parse_url(text) {
        Ok(_) => "ok",
        Err(refusal) => refusal.code,
    }
}

#[test]
fn loopback_is_refused_in_every_spelling() {
    let hosts = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7F.1",
        "0177.0.0.1",
        "017700000001",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0x0.1",
        "127.000.000.001",
        "%31%32%37.0.0.1",
        "%31%32%37%2E%30%2E%30%2E%31",
        "１２７.0.0.1",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "127．0．0．1",
        "127｡0｡0｡1",
        "0x7f%2e1",
        "127.0.0.\u{ad}1",
        "0",
        "0.0.0.0",
        "0x0",
        "00",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
        "[::127.0.0.1]",
        "[::7f00:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::FFFF:127.0.0.1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::ffff:0:127.0.0.1]",
    ];
    for host in hosts {
        assert_eq!(code(&[], &format!("http://{host}/hook")), REFUSED, "{host}");
        assert_eq!(code(&[], &format!("https://{host}:8443")), REFUSED, "{host}");
    }
}

#[test]
fn metadata_services_are_refused_in_every_spelling() {
    let hosts = [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "168.63.129.16",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "metadata",
        "metadata.tencentyun.com",
        "instance-data",
        "%6detadata.google.internal",
        "ｍetadata.google.internal",
    ];
    for host in hosts {
        assert_eq!(code(&[], &format!("http://{host}/latest")), REFUSED, "{host}");
    }
}

#[test]
fn names_that_mean_something_only_inside_are_refused() {
    let hosts = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "a.localhost.",
        "LocalHost:80",
        "%6cocalhost",
        "ｌocalhost",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "local\u{ad}host",
        "intranet",
        "db.",
        "a.local",
        "printer.local.",
        "x.internal",
        "db.prod.internal",
        "internal",
        "local",
        "nas.lan",
        "router.home.arpa",
        "localhost.localdomain",
    ];
    for host in hosts {
        assert_eq!(code(&[], &format!("http://{host}/")), REFUSED, "{host}");
    }
}

#[test]
fn public_hosts_are_accepted() {
    let texts = [
        "http://example.com",
        "https://example.com:8443/hook?a=b",
        "https://8.8.8.8/",
        "https://[2606:4700:4700::1111]/",
        "http://example.com./",
        "http://notlocalhost.com/",
        "http://localhost.com/",
        "http://example.milan/",
        "http://a.notlocalhost/",
        "http://internal.example.com/",
        "http://mylocal.dev/",
        "http://xn--bcher-kva.example/",
        "http://bücher.example/",
        "http://a_b.example.com/",
        "HTTPS://EXAMPLE.COM/",
        "https://example.com/a%20b/{id}",
        "http://134744072/",
        "http://127.0.0.1.nip.io/",
        "http://1.2.3.4.example/",
        "http://example.com\\hook",
    ];
    for text in texts {
        assert_eq!(code(&[], text), "ok", "{text}");
    }
}

#[test]
fn a_text_that_is_no_callback_url_is_invalid() {
    let texts = [
        "",
        "example.com/hook",
        "/hook",
        "//example.com",
        "http://",
        "https:///",
        "http://:80/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "unix:/run/x.sock",
        "ws://example.com/",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://:secret@example.com/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1#@example.com/",
        "http://example.com/#fragment",
        "http://example.com/#",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:x/",
        " http://example.com/",
        "http://example.com/ ",
        "http://exa mple.com/",
        "http://example.com/a b",
        "http://exam\tple.com/",
        "http://example.com/\r\nx-header: 1",
        "http://example.com/\0",
        "http://a..example.com/",
        "http://.example.com/",
        "http://example.com../",
        "http://./",
        "http://256.0.0.1/",
        "http://1.2.3.4.5/",
        "http://0x100000000/",
        "http://4294967296/",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://[::g]/",
        "http://exa<mple.com/",
        "http://exa%00mple.com/",
        "http://[::1]x/",
    ];
    for text in texts {
        assert_eq!(code(&[], text), INVALID, "{text:?}");
    }
}

#[test]
fn a_url_is_stored_in_its_normal_form() {
    let cases = [
        ("HTTPS://Example.COM:443/a/../b", "https://example.com/b"),
        ("http://bücher.example", "http://xn--bcher-kva.example/"),
        ("http://134744072:80", "http://8.8.8.8/"),
        ("http:\\\\example.com\\hook", "http://example.com/hook"),
    ];
    for (given, normal) in cases {
        let url = strict().parse_url(given).unwrap();
        assert_eq!((url.as_str(), url.to_string().as_str()), (normal, normal));
        let host = normal.split('/').nth(2).unwrap();
        assert_eq!(url.host().unwrap().to_string(), host);
        assert_eq!(strict().parse_url(normal).unwrap(), url);
    }
}

#[test]
fn a_url_may_have_2048_bytes_and_no_more_even_after_encoding() {
    let fill = |letter: &str, count: usize| format!("http://example.com/{}", letter.repeat(count));
    let room = 2048 - "http://example.com/".len();
    assert_eq!(code(&[], &fill("a", room)), "ok");
    assert_eq!(code(&[], &fill("a", room + 1)), INVALID);
    // Two bytes as given, six when encoded.
    assert_eq!(code(&[], &fill("é", room / 6)), "ok");
    assert_eq!(code(&[], &fill("é", room / 2)), INVALID);
}

#[test]
fn an_exception_for_loopback_opens_localhost_and_no_other_name() {
    for networks in [&["127.0.0.0/8"][..], &["127.0.0.1/32"], &["::1/128"], &["0.0.0.0/0"]] {
        assert_eq!(code(networks, "http://localhost:8080/"), "ok", "{networks:?}");
        assert_eq!(code(networks, "http://a.localhost./"), "ok", "{networks:?}");
    }
    assert_eq!(code(&["127.0.0.0/8"], "http://intranet/"), REFUSED);
    assert_eq!(code(&["127.0.0.0/8"], "http://db.internal/"), REFUSED);
    assert_eq!(code(&["10.0.0.0/8"], "http://localhost/"), REFUSED);
}

#[test]
fn an_exception_for_a_private_network_opens_internal_names_but_not_metadata() {
    for networks in [&["10.0.0.0/8"][..], &["172.18.0.0/16"], &["fd00::/8"], &["0.0.0.0/0"]] {
        assert_eq!(code(networks, "http://backend:8080/"), "ok", "{networks:?}");
        assert_eq!(code(networks, "http://a.b.svc.cluster.local/"), "ok", "{networks:?}");
        assert_eq!(code(networks, "http://metadata/"), REFUSED, "{networks:?}");
        assert_eq!(code(networks, "http://metadata.google.internal./"), REFUSED, "{networks:?}");
    }
    assert_eq!(code(&["8.8.8.0/24"], "http://backend/"), REFUSED);
}

#[test]
fn a_refusal_becomes_an_error_about_the_callback_url() {
    let refusal = strict().parse_url("http://127.0.0.1/").unwrap_err();
    let reason = refusal.reason.clone();
    let error = Error::from(refusal);
    assert_eq!((error.code(), error.field()), (REFUSED, Some("callbackUrl")));
    assert_eq!(error.to_string(), reason);
}
