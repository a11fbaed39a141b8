//! The two forms of a run.

use std::time::Duration;

/// How long everything takes.
#[derive(Clone)]
pub struct Form {
    pub name: &'static str,
    /// Settings other than the defaults.
    own: &'static [(&'static str, &'static str)],
    /// Load without faults, for comparison.
    pub calm: Duration,
    /// How often every kind of fault comes.
    pub rounds: usize,
    /// Between two faults.
    pub gap: Duration,
    /// How long a killed process is not replaced.
    pub absence: Duration,
    /// How long the database is away.
    pub outage: Duration,
    /// `dispatch.timeout`.
    pub timeout: Duration,
    /// `dispatch.lease`.
    pub lease: Duration,
    /// `cron.trigger_check_interval`.
    pub pass: Duration,
    /// How long a rule rests between two firings for a user.
    pub cooldown: Duration,
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The default settings, but for retries, which are not to outlast the run.
const LONG: Form = Form {
    name: "long",
    own: &[("PFY_DISPATCH_RETRY_MAX", "20s")],
    calm: seconds(45),
    rounds: 2,
    gap: seconds(4),
    absence: seconds(8),
    outage: seconds(20),
    timeout: seconds(5),
    lease: seconds(30),
    pass: seconds(30),
    cooldown: seconds(5),
};

/// Every kind of fault once.
const SHORT: Form = Form {
    name: "short",
    own: &[
        ("PFY_DISPATCH_TIMEOUT", "2s"),
        ("PFY_DISPATCH_LEASE", "9s"),
        ("PFY_LINE_TIMEOUT", "2s"),
        ("PFY_DISPATCH_RETRY_INITIAL", "500ms"),
        ("PFY_DISPATCH_RETRY_MAX", "2s"),
        // With pauses so short, so that no budget ends before the run does.
        ("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "1000"),
        ("PFY_CRON_TRIGGER_CHECK_INTERVAL", "3s"),
    ],
    calm: seconds(4),
    rounds: 1,
    gap: seconds(1),
    absence: seconds(1),
    outage: seconds(5),
    timeout: seconds(2),
    lease: seconds(9),
    pass: seconds(3),
    cooldown: seconds(2),
};

/// The first administrator's token.
pub const ADMINISTRATOR: &str = "pfy_0123456789012345678901234567890123456789012";

const FIXED: [(&str, &str); 6] = [
    ("PFY_SECRET_KEY", "a passphrase of the fire test"),
    ("PFY_AUTH_BOOTSTRAP_TOKEN", ADMINISTRATOR),
    ("PFY_HTTP_ADDR", "127.0.0.1:0"),
    ("PFY_CRON_METRICS_PORT", "0"),
    ("PFY_CRON_TIME_ZONE", "UTC"),
    ("PFY_CALLBACKS_ALLOWED_NETWORKS", "127.0.0.0/8"),
];

impl Form {
    /// The form of that name.
    pub fn named(name: &str) -> Option<Self> {
        [LONG, SHORT].into_iter().find(|form| form.name == name)
    }

    /// What every process is told.
    pub fn settings(&self) -> Vec<(String, String)> {
        let all = FIXED.iter().chain(self.own);
        all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// The settings other than the defaults, for people.
    pub fn own(&self) -> String {
        let own: Vec<_> = self.own.iter().map(|(key, value)| format!("{key}={value}")).collect();
        own.join(" ")
    }

    /// Longer than work is held.
    pub fn longer_than_lease(&self) -> Duration {
        self.lease + self.lease / 3
    }
}
