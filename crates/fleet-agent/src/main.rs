//! `tcpilot-fleet`: the process of a fleet's host.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Parser, Subcommand};
use tcpilot_fleet::Name;
use tcpilot_fleet_agent::agent::{Agent, Files};
use tcpilot_fleet_agent::check::{Verdict, check};
use tcpilot_fleet_agent::forget::{Unforgotten, forget};
use tcpilot_fleet_agent::key::Host;
use tcpilot_fleet_agent::merge_agent::MergeAgent;
use tcpilot_fleet_agent::settings::{Engine, Settings};
use tcpilot_fleet_agent::status::Status;
use tcpilot_fleet_agent::store::dir::DirStore;
use tcpilot_fleet_agent::store::nats::NatsStore;
use tcpilot_fleet_agent::store::{Store, StoreError};

const MORE: &str = "\
A fleet is a number of hosts that tell each other which congestion control does best on the way to each /24 or /48. A host says \
its own knowledge, never what it heard. The hosts exchange it through an engine: a folder that all of them share, or NATS.

Try it on one machine, with a folder:

  $ mkdir -p /srv/tcpilot-fleet
  $ cat /etc/tcpilot/fleet.toml
  store = \"dir:/srv/tcpilot-fleet\"
  place = \"fra1\"            # hosts of one place take the same routes
  insecure = true             # a folder does not tell hosts apart
  $ tcpilot-fleet check
  $ tcpilot-fleet run &
  $ tcpilot-fleet status

With NATS each host has a certificate, and may write its own keys only:

  store = \"nats://nats.example:4222\"
  place = \"fra1\"
  ca_file = \"/etc/tcpilot/fleet/ca.pem\"
  cert_file = \"/etc/tcpilot/fleet/web-07.pem\"
  key_file = \"/etc/tcpilot/fleet/web-07.key\"

The agent reads this host's knowledge from STATE_DIR/own/POLICY.state, and writes that of the fleet to \
STATE_DIR/heard/POLICY.state. The daemon writes the ones and reads the others if its configuration has [fleet]. The agent needs no \
privileges. docs/use/fleet.md has \
all settings.";

/// Shares this host's knowledge of paths with a fleet
#[derive(Parser)]
#[command(version, after_long_help = MORE, max_term_width = 100)]
struct Arguments {
    /// The settings
    #[arg(long, default_value = "/etc/tcpilot/fleet.toml", global = true)]
    config: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say and hear, until the process is ended
    Run,
    /// Merge what the hosts of this place say, for places of more than 16 hosts, until the process is ended
    Merge,
    /// Prove that this host may write its own keys and no other's, and compare clocks
    Check,
    /// Set the engine up, once for a fleet; needs an administrator's rights there
    Init {
        /// Servers that keep a copy of each value
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
        replicas: u8,
    },
    /// Have all hosts of this place drop what a host says, until its agent is started again; needs an administrator's rights
    Forget {
        /// Its name
        host: String,
    },
    /// Show what the agent has said and heard
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| "warn,tcpilot_fleet_agent=info,async_nats=off".into()),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    match run(&arguments) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("tcpilot-fleet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let settings = Settings::read(&arguments.config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()?;
    match &arguments.command {
        Command::Run => runtime.block_on(run_agent(settings, Work::Agent)),
        Command::Merge => runtime.block_on(run_agent(settings, Work::Merger)),
        Command::Check => Ok(runtime.block_on(run_check(&settings))),
        Command::Init { replicas } => runtime.block_on(init(&settings, (*replicas).into())),
        Command::Forget { host } => runtime.block_on(run_forget(&settings, host)),
        Command::Status { json } => show(&settings, *json),
    }
}

fn plain(error: &StoreError) -> anyhow::Error {
    anyhow::anyhow!("{error}; {}", error.remedy())
}

fn nats(settings: &Settings) -> Option<NatsStore> {
    let Engine::Nats {
        servers,
        bucket,
        identity,
    } = &settings.engine
    else {
        return None;
    };
    let (host, timeout) = (&settings.host, settings.timeout);
    Some(NatsStore::new(
        servers,
        bucket,
        identity.as_ref(),
        host,
        timeout,
    ))
}

/// What goes on until the process is ended.
#[derive(Clone, Copy)]
enum Work {
    Agent,
    Merger,
}

impl Work {
    async fn run(self, settings: Settings, store: impl Store) -> anyhow::Result<()> {
        match self {
            Self::Agent => Agent::new(settings, store)?.run().await,
            Self::Merger => MergeAgent::new(settings, store)?.run().await,
        }
        Ok(())
    }
}

async fn run_agent(settings: Settings, work: Work) -> anyhow::Result<ExitCode> {
    match &settings.engine {
        Engine::Folder(folder) => {
            if !settings.is_insecure {
                bail!(
                    "a folder gives no rights by host; set insecure = true if you trust all who write in it"
                );
            }
            let store = DirStore::new(folder, settings.timeout).map_err(|error| plain(&error))?;
            work.run(settings, store).await?;
        }
        Engine::Nats { .. } => {
            if let Some(store) = nats(&settings) {
                work.run(settings, store).await?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn run_check(settings: &Settings) -> ExitCode {
    let findings = check(settings).await;
    for finding in &findings {
        println!("{finding}");
    }
    let is_bad = findings.iter().any(|found| found.verdict == Verdict::Bad);
    ExitCode::from(u8::from(is_bad))
}

async fn init(settings: &Settings, replicas: usize) -> anyhow::Result<ExitCode> {
    match (&settings.engine, nats(settings)) {
        (Engine::Folder(folder), _) => std::fs::create_dir_all(folder)?,
        (_, Some(store)) => store.init(replicas).await.map_err(|error| plain(&error))?,
        (_, None) => {}
    }
    println!("{} is ready for the fleet", settings.engine);
    Ok(ExitCode::SUCCESS)
}

async fn run_forget(settings: &Settings, name: &str) -> anyhow::Result<ExitCode> {
    let name = Name::new(name).map_err(|refusal| anyhow::anyhow!("{name}: {refusal}"))?;
    let place = settings.host.place.clone();
    let host = Host { place, name };
    let done = match (&settings.engine, nats(settings)) {
        (Engine::Folder(folder), _) => {
            let store = DirStore::new(folder, settings.timeout).map_err(|error| plain(&error))?;
            forget(&store, &host).await
        }
        (_, Some(store)) => forget(&store, &host).await,
        (_, None) => Ok(()),
    };
    done.map_err(|error| match error {
        Unforgotten::Store(StoreError::Denied(text)) => anyhow::anyhow!(
            "{text}; give --config a file of settings with the administrator's certificate"
        ),
        Unforgotten::Store(error) => plain(&error),
        error => error.into(),
    })?;
    println!(
        "{} is forgotten: other hosts drop its states at their next hearing, and hear it again after a restart of its agent",
        host.name
    );
    Ok(ExitCode::SUCCESS)
}

fn show(settings: &Settings, json: bool) -> anyhow::Result<ExitCode> {
    let status = Status::read(&Files::new(&settings.state_dir).status())?;
    if json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print!("{status}");
    }
    Ok(ExitCode::SUCCESS)
}
