//! `holdfast ui`: opens the page in a browser, logged in as the user of a kubeconfig.
//!
//! A local process serves the page and passes its requests on with the credentials of the kubeconfig, which the browser never
//! gets. The URL contains a code that is valid once.

mod gate;
mod proxy;
mod upstream;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::Instant;

use self::gate::Gate;
use self::proxy::Proxy;
use self::upstream::Upstream;
use crate::files;
use crate::remote::{Access, AccessFlags};

/// Flags of `holdfast ui`.
#[derive(Debug, Args)]
pub(crate) struct PageFlags {
    /// Local port on which to serve the page. 0 selects a free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Print the link and open no browser
    #[arg(long)]
    no_browser: bool,

    #[command(flatten)]
    access: AccessFlags,
}

/// Serves the page until the process is interrupted.
pub(crate) fn run(flags: &PageFlags) -> Result<()> {
    let access = Access::from_flags(&flags.access)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, flags.port));
        let listener = TcpListener::bind(address).await.context("cannot listen")?;
        let upstream = Upstream::connect(access).await?;
        let address = listener.local_addr()?;
        let gate = Gate::new(Instant::now())?;
        let link = format!("http://{address}{}/#code={}", holdfast_ui::PATH, gate.code());
        writeln!(io::stdout(), "Open {link}")?;
        writeln!(
            io::stdout(),
            "The link works once, within {} seconds. Ctrl+C ends the page.",
            gate::CODE_LIFE.as_secs()
        )?;
        // The folder of the page that redirects is deleted at the end.
        let _folder = match flags.no_browser {
            true => None,
            false => open_browser(&link)
                .inspect_err(|error| {
                    let _ = writeln!(io::stderr(), "holdfast: no browser was opened: {error:#}");
                })
                .ok(),
        };
        let proxy = Arc::new(Proxy::new(gate, upstream, address));
        tokio::select! {
            served = proxy.serve(listener) => served,
            interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for Ctrl+C"),
        }
    })
}

/// Opens a browser on a private file that redirects to the link. Other users can see the arguments of a process, but cannot read
/// the file.
fn open_browser(link: &str) -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("holdfast-ui-").tempdir()?;
    let path: PathBuf = folder.path().join("open.html");
    let page =
        format!("<!doctype html><title>Holdfast</title><meta http-equiv=\"refresh\" content=\"0;url={link}\">\n");
    files::write_private(&path, &page)?;
    let program = match std::env::consts::OS {
        "macos" => "open",
        _ => "xdg-open",
    };
    let spawned = Command::new(program)
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = spawned.with_context(|| program.to_owned())?;
    // The program may run as long as the browser. Its end is awaited so that it leaves no zombie.
    std::thread::spawn(move || child.wait());
    Ok(folder)
}
