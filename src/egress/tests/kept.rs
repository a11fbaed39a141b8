//! URLs of the corpus, URLs made of them, and URLs put together from parts that are known to
//! mislead. What is accepted is looked at by somebody else, who knows nothing of the policy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::properties::{special_v4, spellings};
use super::{allowing, strict};
use crate::corpus::{cases, entries, mutated, texts};

const CODES: [&str; 2] = ["CALLBACK_ADDRESS_REFUSED", "CALLBACK_URL_INVALID"];

/// The IANA special-purpose registries for IPv4 (without the anycast addresses of AS112 and AMT,
/// which are public) and IPv6, multicast, and what is no global unicast address.
const SPECIAL: &str = "\
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 \
    192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 \
    224.0.0.0/4 240.0.0.0/4 255.255.255.255/32 ::/128 ::1/128 ::/96 ::ffff:0:0/96 \
    ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 \
    2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8";

/// Where clouds give out credentials; one by one, since no network opens them.
const METADATA: &str = "\
    169.254.169.254 169.254.169.253 169.254.170.2 169.254.170.23 169.254.0.23 \
    100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd00:ec2::253 fd00:ec2::23 \
    fd20:ce::254";

/// Exceptions that somebody may make.
const NETWORKS: &str = "\
    127.0.0.0/8 10.0.0.0/8 172.18.0.0/16 192.168.1.7/32 100.64.0.0/10 0.0.0.0/0 \
    169.254.0.0/16 169.254.169.254/32 8.8.8.0/24 ::1/128 fd00::/8 64:ff9b::/96 ::ffff:0:0/96 \
    ::/0";

const NAMES: &str = "\
    example.com a.b.example localhost LOCALHOST metadata.google.internal metadata \
    db.internal x.local nas.lan router.home.arpa intranet xn--bcher-kva.example \
    bücher.example faß.de ⓛⓞⓒⓐⓛⓗⓞⓢⓣ local\u{ad}host 例え.テスト 1.2.3.4.example 0x7f.1.example \
    example.0x1 a_b.example xn--a *.example %6cocalhost 127.0.0.1.nip.io ａ．ｂ";

const PIECES: &[&str] = &[
    "@",
    ":",
    "/",
    "\\",
    "?",
    "#",
    "[",
    "]",
    ".",
    "..",
    "%",
    "%25",
    "%2e",
    "%00",
    "%0d%0a",
    "%2f",
    "。",
    "．",
    "｡",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{2060}",
    "\u{feff}",
    "\u{202e}",
    "\u{0}",
    "\t",
    "\n",
    " ",
    "0",
    "0x",
    "1",
    "127.0.0.1",
    "::1",
    "[::1]",
    "::ffff:",
    "64:ff9b::",
    "localhost",
    ".localhost",
    ".local",
    "xn--",
    "http://",
    "//",
    ":80",
    ":0",
    "user:pass@",
    "é",
    "ß",
    "ſ",
    "K",
    "①",
    "☺",
];

fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_whitespace()
}

/// The family, and the address as a number of 128 bits of which a prefix is the left part.
fn bits(ip: IpAddr) -> (bool, u128) {
    match ip {
        IpAddr::V4(ip) => (false, u128::from(u32::from(ip)) << 96),
        IpAddr::V6(ip) => (true, u128::from(ip)),
    }
}

fn holds(network: &str, ip: IpAddr) -> bool {
    let (address, length) = network.split_once('/').unwrap();
    let ((six, base), (is_six, ip)) = (bits(address.parse().unwrap()), bits(ip));
    let length: u32 = length.parse().unwrap();
    six == is_six && (length == 0 || (base ^ ip) >> (128 - length) == 0)
}

/// The addresses that a connection to `ip` may end at.
fn ends(ip: IpAddr) -> Vec<IpAddr> {
    let mut ends = vec![ip];
    if let IpAddr::V6(six) = ip {
        let [.., a, b, c, d] = six.octets();
        if holds("::ffff:0:0/96", ip) || holds("64:ff9b::/96", ip) {
            ends.push(Ipv4Addr::new(a, b, c, d).into());
        }
    }
    ends
}

/// Whether nobody may connect to `ip` where `networks` are excepted. Of a mapped address only the
/// inner one counts: that is where the operating system connects to.
fn is_denied(ip: IpAddr, networks: &[&str]) -> bool {
    let mapped = holds("::ffff:0:0/96", ip);
    ends(ip).into_iter().any(|end| {
        if words(METADATA).any(|metadata| metadata.parse::<IpAddr>().unwrap() == end) {
            return !networks.iter().any(|network| {
                holds(network, end) && (network.ends_with("/32") || network.ends_with("/128"))
            });
        }
        let special = words(SPECIAL).any(|special| holds(special, end))
            || end.is_ipv6() && !holds("2000::/3", end);
        let outer = mapped && end == ip;
        special && !outer && !networks.iter().any(|network| holds(network, end))
    })
}

/// What a C library takes for an IPv4 address: one to four numbers, the last fills what is left.
fn as_c_reads_it(host: &str) -> Option<Ipv4Addr> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let parts: Vec<_> = host.split('.').collect();
    let read = |part: &&str| match part.strip_prefix("0x").or(part.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if part.starts_with('0') && part.len() > 1 => u64::from_str_radix(part, 8).ok(),
        None => part.parse().ok(),
    };
    let numbers: Vec<u64> = parts.iter().map(read).collect::<Option<_>>()?;
    let (last, head) = numbers.split_last()?;
    let room = 32_u32.checked_sub(8 * u32::try_from(head.len()).ok()?)?;
    if room == 0 || head.iter().any(|part| *part > 255) || *last >> room != 0 {
        return None;
    }
    let whole = head.iter().enumerate().fold(*last, |sum, (at, part)| sum | part << (24 - 8 * at));
    u32::try_from(whole).ok().map(Ipv4Addr::from)
}

/// The host of a URL in normal form, by its punctuation alone.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").unwrap().1;
    let place = &rest[..rest.find(['/', '?', '#']).unwrap()];
    assert!(!place.contains('@'), "{url}");
    match place.strip_prefix('[') {
        Some(six) => six.split_once(']').unwrap().0,
        None => place.split(':').next().unwrap(),
    }
}

/// Whether a name means something only inside a network, where `networks` are excepted.
fn is_inside(name: &str, networks: &[&str]) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let touches = |parts: &[&str]| {
        networks.iter().any(|network| {
            let first: IpAddr = network.split_once('/').unwrap().0.parse().unwrap();
            let inside = |part: &&str| {
                holds(part, first)
                    || holds(network, part.split_once('/').unwrap().0.parse().unwrap())
            };
            parts.iter().any(inside)
        })
    };
    let labels: Vec<_> = name.split('.').collect();
    match labels[..] {
        [.., "localhost"] => !touches(&["127.0.0.0/8", "::1/128"]),
        ["metadata" | "instance-data" | "rancher-metadata"] => true,
        ["metadata", "google" | "azure", "internal"] => true,
        [_] | [.., "local" | "internal" | "lan" | "localdomain"] | [.., "home", "arpa"] => {
            !touches(&[
                "10.0.0.0/8",
                "172.16.0.0/12",
                "192.168.0.0/16",
                "100.64.0.0/10",
                "fc00::/7",
            ])
        }
        _ => labels.iter().any(|label| label.is_empty()),
    }
}

/// What must hold of any text under any policy.
fn check(text: &str, networks: &[&str]) -> Result<(), TestCaseError> {
    let policy = allowing(networks);
    let url = match policy.parse_url(text) {
        Ok(url) => url,
        Err(refusal) => {
            prop_assert!(CODES.contains(&refusal.code));
            prop_assert!(refusal.reason.len() > 20, "{}", refusal.reason);
            prop_assert!(!refusal.reason.chars().any(char::is_control), "{}", refusal.reason);
            return Ok(());
        }
    };
    let normal = url.as_str();
    let again = policy.parse_url(normal);
    prop_assert_eq!(again.as_ref(), Ok(&url));
    prop_assert!(normal.starts_with("http://") || normal.starts_with("https://"), "{}", normal);
    prop_assert!(normal.bytes().all(|byte| byte.is_ascii_graphic()), "{}", normal);
    prop_assert!(normal.len() <= 2048 && !normal.contains('#'));
    let host = host_of(normal);
    let uri: http::Uri = normal.parse().unwrap();
    prop_assert_eq!(uri.host().unwrap().trim_matches(['[', ']']), host, "who is called");
    match host.parse::<IpAddr>() {
        Ok(ip) => {
            prop_assert!(!is_denied(ip, networks), "{} leads to {}", normal, ip);
            prop_assert!(policy.permits(ip).is_ok());
        }
        Err(_) => {
            prop_assert_eq!(as_c_reads_it(host), None, "{} is an address to others", normal);
            prop_assert!(!is_inside(host, networks), "{}", normal);
        }
    }
    Ok(())
}

fn any_v4() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![special_v4(), any::<u32>().prop_map(Ipv4Addr::from)]
}

/// Addresses in networks that are special, at their ends, and anywhere.
fn any_v6() -> impl Strategy<Value = Ipv6Addr> {
    let six: Vec<_> = words(SPECIAL).filter(|network| network.contains(':')).collect();
    let in_special = (proptest::sample::select(six), any::<u128>()).prop_map(|(network, tail)| {
        let (address, length) = network.split_once('/').unwrap();
        let room = u128::MAX.checked_shr(length.parse().unwrap()).unwrap_or(0);
        Ipv6Addr::from(u128::from(address.parse::<Ipv6Addr>().unwrap()) | (tail & room))
    });
    let metadata = words(METADATA).filter_map(|text| text.parse::<Ipv6Addr>().ok());
    let metadata = proptest::sample::select(metadata.collect::<Vec<_>>());
    let global = any::<u128>().prop_map(|tail| Ipv6Addr::from((1 << 125) | (tail >> 3)));
    prop_oneof![in_special, metadata, global, any::<u128>().prop_map(Ipv6Addr::from)]
}

fn any_host() -> impl Strategy<Value = String> {
    let four = (any_v4(), any::<proptest::sample::Index>())
        .prop_map(|(ip, which)| which.get(&spellings(ip)).clone());
    let zone = prop_oneof![6 => Just(""), 1 => Just("%25eth0"), 1 => Just("%eth0"), 1 => Just("%")];
    let six = (any_v6(), zone).prop_map(|(ip, zone)| format!("[{ip}{zone}]"));
    let name = proptest::sample::select(words(NAMES).collect::<Vec<_>>()).prop_map(str::to_owned);
    prop_oneof![3 => four, 2 => six, 2 => name, 1 => "[\\PC.]{0,20}", 1 => "[0-9a-fx.:]{1,12}"]
}

fn any_url() -> impl Strategy<Value = String> {
    let part = |usual: &'static str, other: &'static [&'static str]| prop_oneof![5 => Just(usual), 1 => proptest::sample::select(other)];
    let scheme = part("http://", &["https://", "HTTP:\\\\", "http:/", "http:", "ftp://", "//", ""]);
    let user = part("", &["user@", "user:secret@", "@", ":@", "127.0.0.1@", "a%40b@", "\\@"]);
    let port = part("", &[":80", ":443", ":0", ":65535", ":65536", ":", ":8080", ":x", ":080"]);
    let rest =
        part("/", &["", "/a/../b", "/?q=@x", "/#x", "\\x", "?q", "#", "/%00", "/é", "/\u{0}"]);
    (scheme, user, any_host(), part("", &[".", "..", "%2e", "。"]), port, rest).prop_map(
        |(scheme, user, host, dot, port, rest)| format!("{scheme}{user}{host}{dot}{port}{rest}"),
    )
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![4 => any_url(), 4 => mutated(texts("callback-url"), PIECES), 1 => any::<String>()]
}

#[test]
fn texts_of_the_corpus_have_their_verdicts() {
    let mut wrong = Vec::new();
    for entry in entries("callback-url") {
        let verdict = strict().parse_url(&entry.text).map_or_else(|refusal| refusal.code, |_| "ok");
        if verdict != entry.verdict {
            wrong.push(entry.but(verdict));
        }
        for network in words(NETWORKS) {
            let checked = check(&entry.text, &[network]);
            checked.unwrap_or_else(|error| panic!("{} with {network}: {error}", entry.at));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_special_network_is_denied_from_its_first_to_its_last_address() {
    for network in words(SPECIAL) {
        let (address, length) = network.split_once('/').unwrap();
        let first: IpAddr = address.parse().unwrap();
        let length: u32 = length.parse().unwrap();
        let last = match first {
            IpAddr::V4(ip) => {
                IpAddr::V4((u32::from(ip) | u32::MAX.checked_shr(length).unwrap_or(0)).into())
            }
            IpAddr::V6(ip) => {
                IpAddr::V6((u128::from(ip) | u128::MAX.checked_shr(length).unwrap_or(0)).into())
            }
        };
        for ip in [first, last] {
            assert!(strict().permits(ip).is_err(), "{ip} of {network}");
        }
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn what_is_accepted_never_leads_to_a_denied_address(text in any_text()) {
        check(&text, &[])?;
    }

    #[test]
    fn exceptions_open_what_they_name_and_nothing_else(
        text in any_text(),
        networks in proptest::sample::subsequence(words(NETWORKS).collect::<Vec<_>>(), 0..=3),
    ) {
        check(&text, &networks)?;
    }
}
