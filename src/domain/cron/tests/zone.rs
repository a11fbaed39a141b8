use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{at, zone};
use crate::domain::cron::Zone;

#[test]
fn a_name_is_found_in_any_case_and_kept_in_the_right_one() {
    assert_eq!(zone("europe/AMSTERDAM").name(), "Europe/Amsterdam");
    assert_eq!(zone("utc").name(), "UTC");
    assert_eq!(zone("Etc/UTC").name(), "Etc/UTC");
    assert_eq!(Zone::utc().name(), "UTC");
}

#[test]
fn two_names_of_one_zone_are_equal() {
    assert_eq!(zone("Asia/Calcutta"), zone("Asia/Kolkata"));
    assert_eq!(zone("Etc/UTC"), Zone::utc());
    assert_ne!(zone("Europe/Amsterdam"), zone("Europe/Dublin"));
    assert_ne!(zone("Etc/GMT+1"), Zone::utc());
}

#[test]
fn what_is_no_iana_name_is_refused() {
    for name in [
        "",
        " ",
        "Europe",
        "Europe/Amsterdm",
        " Europe/Amsterdam",
        "+02:00",
        "UTC+2",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "../Europe/Amsterdam",
        "/usr/share/zoneinfo/Europe/Amsterdam",
        "Etc/Unknown",
        "Factory",
        "local",
        "Europe/Amsterdam\0",
    ] {
        let error = Zone::parse(name).unwrap_err();
        assert_eq!((error.code, error.field), ("UNKNOWN_TIME_ZONE", "timeZone"), "{name}");
        assert!(error.message.contains("IANA name such as Europe/Amsterdam"), "{}", error.message);
    }
    assert!(Zone::parse(&"x".repeat(10_000)).unwrap_err().message.len() < 200);
}

#[test]
fn every_zone_that_is_compiled_in_can_be_used() {
    let names: Vec<_> = jiff::tz::TimeZoneDatabase::bundled()
        .available()
        .map(|name| name.to_string())
        .filter(|name| name != "Factory")
        .collect();
    assert!(names.len() > 500);
    for name in names {
        assert_eq!(zone(&name).name(), name);
    }
}

#[test]
fn local_time_is_told_with_its_offset() {
    let local = |name: &str, instant: &str| {
        let (local, offset) = zone(name).to_local(at(instant));
        format!("{local} {offset}")
    };
    assert_eq!(local("UTC", "2026-01-01T00:00:00.999Z"), "2026-01-01T00:00:00 +00:00");
    assert_eq!(local("Europe/Amsterdam", "2026-03-29T00:59:59Z"), "2026-03-29T01:59:59 +01:00");
    assert_eq!(local("Europe/Amsterdam", "2026-03-29T01:00:00Z"), "2026-03-29T03:00:00 +02:00");
    assert_eq!(local("America/St_Johns", "2026-01-01T00:00:00Z"), "2025-12-31T20:30:00 -03:30");
    assert_eq!(local("Africa/Monrovia", "1970-01-01T00:00:00Z"), "1969-12-31T23:15:30 -00:44:30");
}

#[test]
fn the_data_has_a_version() {
    let version = Zone::data_version();
    assert!(version.len() == 5 && version.as_str() >= "2025c", "{version}");
}

/// A machine's files, gone when dropped.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zone-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn linked(self, target: &str) -> Self {
        symlink(Path::new(target), self.0.join("localtime")).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        fs::write(self.0.join(name), content).unwrap();
        self
    }

    fn zone(&self, tz: Option<&str>) -> Result<String, String> {
        Zone::of_machine(tz, &self.0.join("localtime"), &self.0.join("timezone"))
            .map(|zone| zone.name().to_owned())
            .map_err(|error| error.message)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tz_decides_before_the_files_do() {
    let machine = Machine::new("tz").linked("/usr/share/zoneinfo/Asia/Tokyo");
    let zone = |tz| machine.zone(Some(tz)).unwrap();
    assert_eq!(zone("Europe/Paris"), "Europe/Paris");
    assert_eq!(zone(":Europe/Paris"), "Europe/Paris");
    assert_eq!(zone("/usr/share/zoneinfo/Europe/Paris"), "Europe/Paris");
    assert_eq!(zone(""), "UTC");
}

#[test]
fn an_unknown_tz_is_an_error_and_not_utc() {
    let machine = Machine::new("unknown").linked("/usr/share/zoneinfo/Asia/Tokyo");
    for tz in ["Europe/Amsterdm", "CET-1CEST", "/etc/passwd", ":nowhere"] {
        let message = machine.zone(Some(tz)).unwrap_err();
        assert!(message.contains("variable TZ") && message.contains(tz), "{message}");
    }
}

#[test]
fn without_tz_the_link_names_the_zone() {
    let linked = |name: &str, target: &str| Machine::new(name).linked(target).zone(None);
    assert_eq!(linked("link", "/usr/share/zoneinfo/Asia/Tokyo").unwrap(), "Asia/Tokyo");
    assert_eq!(linked("relative", "../usr/share/zoneinfo/Etc/UTC").unwrap(), "Etc/UTC");
    assert!(linked("stray", "/usr/share/zoneinfo/Asia/Tokio").unwrap_err().contains("Tokio"));
}

#[test]
fn a_copied_localtime_needs_the_text_file() {
    let copied = |name: &str| Machine::new(name).file("localtime", "TZif2");
    let named = copied("named").file("timezone", "Asia/Tokyo\n");
    assert_eq!(named.zone(None).unwrap(), "Asia/Tokyo");
    assert!(copied("nameless").zone(None).unwrap_err().contains("set TZ or cron.time_zone"));
    let wrong = copied("wrong").file("timezone", "Tokyo");
    assert!(wrong.zone(None).unwrap_err().contains("`Tokyo`"));
}

#[test]
fn a_machine_without_any_setting_is_in_utc() {
    assert_eq!(Machine::new("empty").zone(None).unwrap(), "UTC");
}
