//! Address by address: what the policy says and what an exception changes.

use std::net::IpAddr;

use super::{allowing, strict};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// First and last address of each refused range, and the cloud's own.
const REFUSED: &[&str] = &[
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.0",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.0.0",
    "169.254.169.254",
    "169.254.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.192",
    "192.0.0.255",
    "192.0.2.0",
    "192.0.2.255",
    "192.88.99.1",
    "192.168.0.0",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.0",
    "198.51.100.255",
    "203.0.113.0",
    "203.0.113.255",
    "224.0.0.0",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.254",
    "255.255.255.255",
    "100.100.100.200",
    "168.63.129.16",
    "::",
    "::1",
    "::2",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
    "100::",
    "100::ffff:ffff:ffff:ffff",
    "100:0:0:1::1",
    "1fff:ffff::1",
    "2001::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff:ffff::",
    "2001:db8::",
    "2001:db8:ffff::1",
    "2002::",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff::",
    "3fff:fff:ffff::1",
    "4000::1",
    "5f00::1",
    "fc00::",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fdff:ffff::1",
    "fe00::1",
    "fe80::",
    "fe80::1",
    "febf:ffff::1",
    "fec0::",
    "feff:ffff::1",
    "ff00::",
    "ff02::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
];

/// The neighbours of those ranges, and some that everybody knows.
const PERMITTED: &[&str] = &[
    "1.0.0.0",
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::",
    "2001:200::",
    "2001:4860:4860::8888",
    "2001:db7:ffff::1",
    "2001:db9::",
    "2001:ffff::",
    "2003::",
    "2606:4700:4700::1111",
    "3ffe:ffff::1",
    "3fff:1000::",
];

#[test]
fn special_addresses_are_refused_up_to_their_edges() {
    for text in REFUSED {
        let refusal = strict().permits(ip(text)).expect_err(text);
        assert_eq!(refusal.code, "CALLBACK_ADDRESS_REFUSED", "{text}");
        assert!(refusal.reason.starts_with("callbacks may not reach "), "{text}: {refusal}");
    }
}

#[test]
fn a_refusal_says_what_the_address_is() {
    let cases = [
        ("127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("169.254.169.254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("::1", "loopback"),
        ("::ffff:8.8.8.8", "IPv4-mapped"),
        ("64:ff9b::8.8.8.8", "NAT64"),
        ("2002::1", "6to4"),
        ("2001::1", "Teredo"),
        ("fd00::1", "private"),
        ("4000::1", "outside global unicast"),
    ];
    for (text, what) in cases {
        let refusal = strict().permits(ip(text)).unwrap_err();
        assert!(refusal.reason.contains(what), "{text}: {refusal}");
    }
}

#[test]
fn public_addresses_are_permitted_up_to_their_edges() {
    for text in PERMITTED {
        assert_eq!(strict().permits(ip(text)), Ok(()), "{text}");
    }
}

#[test]
fn an_exception_opens_its_own_network_and_no_more() {
    let policy = allowing(&["10.1.0.0/16", "fd12::/16"]);
    for text in ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "fd12::1"] {
        assert_eq!(policy.permits(ip(text)), Ok(()), "{text}");
    }
    let closed = ["10.0.255.255", "10.2.0.0", "::ffff:10.2.0.0", "127.0.0.1", "fd13::1"];
    for text in closed {
        assert!(policy.permits(ip(text)).is_err(), "{text}");
    }
    for text in ["64:ff9b::10.1.0.1", "2002:a01:1::", "::10.1.0.1"] {
        assert!(policy.permits(ip(text)).is_err(), "{text}");
    }
}

#[test]
fn an_exception_for_everything_does_not_open_a_metadata_service() {
    let policy = allowing(&["0.0.0.0/0", "::/0"]);
    for text in ["127.0.0.1", "10.0.0.1", "::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1"]
    {
        assert_eq!(policy.permits(ip(text)), Ok(()), "{text}");
    }
    let metadata = [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
    ];
    for text in metadata {
        assert!(policy.permits(ip(text)).is_err(), "{text}");
    }
}

#[test]
fn a_metadata_service_opens_only_to_an_exception_that_names_it() {
    assert!(allowing(&["169.254.0.0/16"]).permits(ip("169.254.169.254")).is_err());
    assert!(allowing(&["169.254.169.254/31"]).permits(ip("169.254.169.254")).is_err());
    assert_eq!(allowing(&["169.254.169.254/32"]).permits(ip("169.254.169.254")), Ok(()));
    assert_eq!(allowing(&["fd00:ec2::254/128"]).permits(ip("fd00:ec2::254")), Ok(()));
}

#[test]
fn a_translators_prefix_opens_only_what_is_permitted_inside_it() {
    let policy = allowing(&["64:ff9b::/96"]);
    assert_eq!(policy.permits(ip("64:ff9b::8.8.8.8")), Ok(()));
    assert!(policy.permits(ip("64:ff9b::10.0.0.1")).is_err());
    let both = allowing(&["64:ff9b::/96", "10.0.0.0/8"]);
    assert_eq!(both.permits(ip("64:ff9b::10.0.0.1")), Ok(()));
}

#[test]
fn the_mapped_block_opens_only_what_is_permitted_inside_it() {
    let policy = allowing(&["::ffff:0:0/96"]);
    assert_eq!(policy.permits(ip("::ffff:8.8.8.8")), Ok(()));
    assert!(policy.permits(ip("::ffff:127.0.0.1")).is_err());
}
