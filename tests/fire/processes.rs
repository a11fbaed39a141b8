//! The real program, several times, each behind a proxy of its own; and which of them a connection
//! comes from.

use std::fs;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::proxy::Proxy;
use crate::settings::Form;

/// How long a process may take to start on a busy machine.
const START: Duration = Duration::from_secs(120);

/// A place for a process: when one dies, another takes it.
pub struct Slot {
    pub name: String,
    pub proxy: Proxy,
    settings: Vec<(String, String)>,
    ready: &'static str,
    state: Mutex<State>,
    lines: Arc<Mutex<Vec<String>>>,
}

#[derive(Default)]
struct State {
    child: Option<Child>,
    address: Option<String>,
    early: Option<u64>,
    starts: usize,
    unasked: Vec<String>,
}

/// All processes: executors first, then APIs.
pub struct Fleet {
    pub executors: Vec<Arc<Slot>>,
    pub apis: Vec<Arc<Slot>>,
}

impl Fleet {
    pub async fn start(form: &Form, cluster: &Cluster, line_base: &str) -> Result<Arc<Self>> {
        let mut fleet = Self { executors: Vec::new(), apis: Vec::new() };
        for number in 1..=2 {
            let ready = "GraphQL at ";
            let slot = Slot::new(format!("api {number}"), form, (cluster, line_base), ready);
            fleet.apis.push(slot.await?);
        }
        for number in 1..=3 {
            let ready = "this process executes";
            let slot = Slot::new(format!("executor {number}"), form, (cluster, line_base), ready);
            fleet.executors.push(slot.await?);
        }
        Ok(Arc::new(fleet))
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.executors.iter().chain(&self.apis)
    }

    /// The executor that has the local port `theirs` connected to the port `ours`.
    pub fn executor_at(&self, theirs: u16, ours: u16) -> Option<(usize, u32)> {
        let inode = socket(theirs, ours)?;
        let wanted = format!("socket:[{inode}]");
        let slots = self.executors.iter().enumerate();
        slots.filter_map(|(at, slot)| Some((at, slot.pid()?))).find(|(_, pid)| {
            let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
            let mut links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
            links.any(|link| link.as_os_str() == wanted.as_str())
        })
    }
}

/// The inode of the socket that is bound to one port and connected to another.
fn socket(local: u16, remote: u16) -> Option<String> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let port = |column: usize| {
            let (_, port) = columns.get(column)?.split_once(':')?;
            u16::from_str_radix(port, 16).ok()
        };
        let ours = port(1) == Some(local) && port(2) == Some(remote);
        ours.then(|| columns.get(9).map(|inode| (*inode).to_owned())).flatten()
    })
}

impl Slot {
    async fn new(
        name: String,
        form: &Form,
        (cluster, line_base): (&Cluster, &str),
        ready: &'static str,
    ) -> Result<Arc<Self>> {
        let proxy = Proxy::start(cluster.port()).await?;
        let mode = name.split(' ').next().unwrap_or_default().to_owned();
        let mut settings = form.settings();
        settings.extend([
            ("PFY_RUN_MODE".to_owned(), mode),
            ("PFY_DATABASE_URL".to_owned(), cluster.url_through(proxy.port)?),
            ("PFY_LINE_API_BASE".to_owned(), line_base.to_owned()),
        ]);
        let (state, lines) = (Mutex::default(), Arc::default());
        let slot = Arc::new(Self { name, proxy, settings, ready, state, lines });
        slot.start().await?;
        Ok(slot)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics")
    }

    /// Starts a process and waits until it works.
    pub async fn start(&self) -> Result<()> {
        let from = self.output().len();
        let mut command = Command::new(env!("CARGO_BIN_EXE_trigger-manager"));
        command.env_clear().envs(self.settings.iter().cloned()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("the program can't be started")?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        tokio::spawn(read(out.context("stdout")?, self.lines.clone()));
        tokio::spawn(read(err.context("stderr")?, self.lines.clone()));
        self.state().child = Some(child);
        self.state().starts += 1;
        let line = self.line(from).await?;
        let address =
            line.split_once("GraphQL at ").and_then(|(_, rest)| rest.split_once("/graphql"));
        self.state().address = address.map(|(address, _)| address.to_owned());
        Ok(())
    }

    async fn line(&self, from: usize) -> Result<String> {
        let until = Instant::now() + START;
        loop {
            let output = self.output();
            if let Some(line) = output[from..].iter().find(|line| line.contains(self.ready)) {
                return Ok(line.clone());
            }
            if Instant::now() > until || self.pid().is_none() {
                bail!("{} did not start:\n{}", self.name, output[from..].join("\n"));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// All that its processes have printed so far.
    pub fn output(&self) -> Vec<String> {
        self.lines.lock().expect("nobody panics").clone()
    }

    /// How many processes it has had.
    pub fn starts(&self) -> usize {
        self.state().starts
    }

    /// Where its API is, while one runs.
    pub fn address(&self) -> Option<String> {
        self.state().address.clone()
    }

    pub fn pid(&self) -> Option<u32> {
        self.state().child.as_ref().and_then(Child::id)
    }

    /// Whether its process runs. One that ended unasked is noted.
    pub fn is_alive(&self) -> bool {
        let mut state = self.state();
        let Some(child) = &mut state.child else { return false };
        match child.try_wait() {
            Ok(Some(status)) => {
                state.unasked.push(status.to_string());
                state.child = None;
                false
            }
            _ => true,
        }
    }

    /// How processes ended that nobody killed.
    pub fn unasked(&self) -> Vec<String> {
        self.state().unasked.clone()
    }

    /// `kill -9`, at once.
    pub fn kill(&self) {
        if !self.is_alive() {
            return;
        }
        let mut state = self.state();
        state.address = None;
        if let Some(mut child) = state.child.take() {
            let _ = child.start_kill();
            tokio::spawn(async move { child.wait().await });
        }
    }

    /// Sends a signal, `STOP` or `CONT`; it has arrived when this returns.
    pub fn signal(&self, name: &str) {
        if let Some(pid) = self.pid() {
            let mut kill = std::process::Command::new("kill");
            let _ = kill.arg(format!("-{name}")).arg(pid.to_string()).status();
        }
    }

    /// The memory of its process that is resident, in KiB.
    pub fn resident(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    }

    /// Remembers its memory after it warmed up.
    pub fn weigh(&self) {
        self.state().early = self.resident();
    }

    /// The memory that was remembered.
    pub fn early(&self) -> Option<u64> {
        self.state().early
    }
}

async fn read(from: impl AsyncRead + Unpin, lines: Arc<Mutex<Vec<String>>>) {
    let mut reader = BufReader::new(from).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        lines.lock().expect("nobody panics").push(line);
    }
}
