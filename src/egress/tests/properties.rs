//! Any address, any spelling, against a naive reading of the ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::strict;
use crate::corpus::cases;

/// Octet by octet, so that it shares nothing with the table under test.
fn is_special(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    a == 0
        || a == 10
        || a == 127
        || a >= 224
        || a == 100 && (64..=127).contains(&b)
        || a == 169 && b == 254
        || a == 172 && (16..=31).contains(&b)
        || a == 192 && (b == 168 || b == 0 && (c == 0 || c == 2) || b == 88 && c == 99)
        || a == 198 && (b == 18 || b == 19 || b == 51 && c == 100)
        || a == 203 && b == 0 && c == 113
        || ip == Ipv4Addr::new(168, 63, 129, 16)
}

pub(super) fn special_v4() -> impl Strategy<Value = Ipv4Addr> {
    let heads = prop_oneof![
        Just((0x0000_0000_u32, 8)),
        Just((0x0a00_0000, 8)),
        Just((0x6440_0000, 10)),
        Just((0x7f00_0000, 8)),
        Just((0xa9fe_0000, 16)),
        Just((0xac10_0000, 12)),
        Just((0xc000_0000, 24)),
        Just((0xc000_0200, 24)),
        Just((0xc0a8_0000, 16)),
        Just((0xc612_0000, 15)),
        Just((0xc633_6400, 24)),
        Just((0xcb00_7100, 24)),
        Just((0xe000_0000, 3)),
        Just((0xa83f_8110, 32)),
    ];
    (heads, any::<u32>()).prop_map(|((head, prefix), tail)| {
        let host = u32::MAX.checked_shr(prefix).unwrap_or(0);
        Ipv4Addr::from(head | (tail & host))
    })
}

/// The texts that mean `ip` to the parser, or carry it inside an IPv6 address.
pub(super) fn spellings(ip: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = ip.octets();
    let whole = u32::from(ip);
    let (tail3, tail2) = (whole & 0x00ff_ffff, whole & 0xffff);
    let (high, low) = (whole >> 16, whole & 0xffff);
    let dotted = ip.to_string();
    let encoded: String = dotted.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let wide: String = dotted
        .chars()
        .map(|c| match c.to_digit(10) {
            Some(digit) => char::from_u32(0xff10 + digit).unwrap(),
            None => '。',
        })
        .collect();
    vec![
        format!("{dotted}."),
        dotted,
        encoded,
        wide,
        format!("{whole}"),
        format!("0x{whole:x}"),
        format!("0X{whole:08X}"),
        format!("0{whole:o}"),
        format!("{a}.{tail3}"),
        format!("{a}.{b}.{tail2}"),
        format!("0x{a:x}.0{b:o}.{c}.0x{d:X}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("00000{a:o}.{b}.0x0000{tail2:x}"),
        format!("[::ffff:{ip}]"),
        format!("[::FFFF:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:ffff:{high:04x}:{low:04x}]"),
        format!("[::{ip}]"),
        format!("[::ffff:0:{ip}]"),
        format!("[64:ff9b::{ip}]"),
        format!("[64:ff9b::{high:x}:{low:x}]"),
        format!("[64:ff9b:1::{high:x}:{low:x}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[2001:0:{high:x}:{low:x}::1]"),
        format!("[2001::{:x}:{:x}]", high ^ 0xffff, low ^ 0xffff),
    ]
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_special_ipv4_address_is_refused_in_every_spelling(ip in special_v4()) {
        prop_assert!(is_special(ip));
        prop_assert!(strict().permits(IpAddr::V4(ip)).is_err());
        for host in spellings(ip) {
            let refusal = strict().parse_url(&format!("http://{host}/")).expect_err(&host);
            prop_assert_eq!(refusal.code, "CALLBACK_ADDRESS_REFUSED", "{}", host);
        }
    }

    #[test]
    fn an_ipv4_address_is_refused_exactly_when_it_is_special(whole: u32) {
        let ip = Ipv4Addr::from(whole);
        prop_assert_eq!(strict().permits(IpAddr::V4(ip)).is_err(), is_special(ip));
    }

    #[test]
    fn the_spellings_of_a_public_ipv4_address_are_one_and_permitted(whole: u32) {
        let ip = Ipv4Addr::from(whole);
        prop_assume!(!is_special(ip));
        for host in spellings(ip).into_iter().filter(|host| !host.starts_with('[')) {
            let url = strict().parse_url(&format!("http://{host}/")).expect(&host);
            prop_assert_eq!(url.as_str(), format!("http://{ip}/"));
        }
    }

    #[test]
    fn an_ipv6_address_outside_global_unicast_is_refused(bits: u128) {
        prop_assume!(bits >> 125 != 1);
        prop_assert!(strict().permits(IpAddr::V6(Ipv6Addr::from(bits))).is_err());
    }

    #[test]
    fn an_ipv6_address_inside_global_unicast_is_refused_only_in_known_blocks(tail: u128) {
        let ip = Ipv6Addr::from((1 << 125) | (tail >> 3));
        let [a, b, ..] = ip.segments();
        let known = a == 0x2001 && (b <= 0x1ff || b == 0xdb8)
            || a == 0x2002
            || a == 0x3fff && b <= 0xfff;
        prop_assert_eq!(strict().permits(IpAddr::V6(ip)).is_err(), known);
    }

    #[test]
    fn a_text_that_passes_passes_again_in_its_normal_form(text in "[\\PC.]{0,40}") {
        if let Ok(url) = strict().parse_url(&format!("http://{text}")) {
            let again = strict().parse_url(url.as_str());
            prop_assert_eq!(again.as_ref(), Ok(&url));
        }
    }
}
