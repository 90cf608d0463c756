//! A real nats-server on loopback, with certificates, rights and JetStream, and what can happen to it.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustix::process::{Pid, Signal, kill_process};

/// Debian's package is `nats-server`. Without it there is nothing to test with.
pub fn is_missing() -> bool {
    let is_missing = Command::new("nats-server")
        .arg("--version")
        .output()
        .is_err();
    if is_missing {
        eprintln!("SKIPPED: there is no nats-server in PATH; apt-get install nats-server");
    }
    is_missing
}

/// An authority for certificates.
#[derive(Clone)]
pub struct Authority {
    issuer: Arc<CertifiedIssuer<'static, KeyPair>>,
    folder: PathBuf,
}

fn pem(kind: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in der.chunks(3) {
        let bits = three
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63] as char;
            text.push(if i > three.len() { '=' } else { digit });
        }
    }
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .map(|at| &text[at..text.len().min(at + 64)])
        .collect();
    format!(
        "-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n",
        lines.join("\n")
    )
}

impl Authority {
    pub fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "fleet");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("ca.pem"), pem("CERTIFICATE", issuer.der())).unwrap();
        let (issuer, folder) = (Arc::new(issuer), folder.to_owned());
        Self { issuer, folder }
    }

    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Makes `NAME.pem` and `NAME.key`, for these addresses.
    pub fn issue(&self, name: &str, addresses: &[&str]) -> (PathBuf, PathBuf) {
        let addresses: Vec<String> = addresses.iter().map(|a| (*a).to_owned()).collect();
        let mut params = CertificateParams::new(addresses).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &*self.issuer).unwrap();
        let (cert_file, key_file) = (
            self.folder.join(format!("{name}.pem")),
            self.folder.join(format!("{name}.key")),
        );
        fs::write(&cert_file, pem("CERTIFICATE", cert.der())).unwrap();
        fs::write(&key_file, pem("PRIVATE KEY", &key.serialize_der())).unwrap();
        fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        (cert_file, key_file)
    }
}

/// A server. It is killed at the end.
pub struct Server {
    pub port: u16,
    pub folder: PathBuf,
    pub authority: Authority,
    process: Option<Child>,
    /// Size of a file system of its own for its data, if it has one.
    disk: Option<&'static str>,
}

/// A free port below those of clients: a connection to a free one of theirs can be one to itself, and takes the port.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let next = std::process::id() * 31 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (next % 10_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The rights that docs/use/fleet.md gives a host.
pub fn rights(host: &str) -> String {
    format!(
        r#"{{ user: "CN={host}", permissions: {{
             publish: ["$KV.tcpilot.h.fra1.{host}.>", "$JS.API.STREAM.INFO.KV_tcpilot",
                       "$JS.API.DIRECT.GET.KV_tcpilot.>"],
             subscribe: ["_INBOX.fra1-{host}.>"] }} }}"#
    )
}

/// The same at a leaf node, whose mapping comes before its rights.
pub fn rights_at_leaf(host: &str) -> String {
    rights(host)
        .replace("$JS.API.", "$JS.hub.API.")
        .replace("$KV.", "$JS.hub.API.$KV.")
}

/// The rights that docs/use/fleet.md gives a leaf node of a region.
pub fn leaf_rights() -> String {
    r#"{ user: "CN=leaf", permissions: {
         publish: ["$JS.hub.API.$KV.tcpilot.h.fra1.>", "$JS.hub.API.STREAM.INFO.KV_tcpilot",
                   "$JS.hub.API.DIRECT.GET.KV_tcpilot.>"],
         subscribe: ["_INBOX.>"] } }"#
        .to_owned()
}

/// The rights that docs/use/fleet.md gives a merger.
pub fn merger_rights(name: &str) -> String {
    format!(
        r#"{{ user: "CN={name}", permissions: {{
             publish: ["$KV.tcpilot.m.fra1.>", "$KV.tcpilot.h.fra1.{name}.check",
                       "$JS.API.STREAM.INFO.KV_tcpilot", "$JS.API.DIRECT.GET.KV_tcpilot.>"],
             subscribe: ["_INBOX.fra1-{name}.>"] }} }}"#
    )
}

impl Server {
    /// Starts a server that knows these hosts, and `admin`.
    pub fn start(root: &Path, hosts: &[&str]) -> Self {
        Self::start_with(
            root,
            &hosts.iter().map(|h| rights(h)).collect::<Vec<_>>(),
            None,
        )
    }

    pub fn start_with(root: &Path, users: &[String], disk: Option<&'static str>) -> Self {
        let authority = Authority::new(&root.join("certificates"));
        authority.issue("admin", &[]);
        let config = |server: &Self| {
            format!(
                r#"jetstream {{ store_dir: "{}", max_mem: 64MB, max_file: 2GB }}
                   authorization {{ users: [ {{ user: "CN=admin" }}, {} ] }}
                "#,
                server.data(),
                users.join(", ")
            )
        };
        Self::start_as("server", root, authority, disk, config)
    }

    /// Starts a server that leaf nodes connect to at the port `leaves`.
    pub fn start_hub(root: &Path, leaves: u16, users: &[String]) -> Self {
        let authority = Authority::new(&root.join("certificates"));
        authority.issue("admin", &[]);
        let config = |server: &Self| {
            format!(
                r#"jetstream {{ store_dir: "{}", max_mem: 64MB, max_file: 2GB, domain: hub }}
                   leafnodes {{ listen: "127.0.0.1:{leaves}", {} }}
                   authorization {{ users: [ {{ user: "CN=admin" }}, {} ] }}
                "#,
                server.data(),
                server.tls("server"),
                users.join(", ")
            )
        };
        Self::start_as("server", root, authority, None, config)
    }

    /// Starts a server without JetStream, a leaf node of the one that listens for such at the port `leaves`: the
    /// configuration of docs/use/fleet.md.
    pub fn start_leaf(root: &Path, leaves: u16, authority: Authority, users: &[String]) -> Self {
        authority.issue("leaf", &[]);
        let config = |server: &Self| {
            format!(
                r#"leafnodes {{ remotes: [ {{ url: "tls://127.0.0.1:{leaves}", account: FLEET, {} }} ] }}
                   accounts {{ FLEET {{
                     mappings: {{ "$JS.API.>": "$JS.hub.API.>", "$KV.>": "$JS.hub.API.$KV.>" }}
                     users: [ {} ] }} }}
                "#,
                server.tls("leaf"),
                users.join(", ")
            )
        };
        Self::start_as("leaf-server", root, authority, None, config)
    }

    fn start_as(
        name: &str,
        root: &Path,
        authority: Authority,
        disk: Option<&'static str>,
        config: impl FnOnce(&Self) -> String,
    ) -> Self {
        let folder = root.join(name);
        authority.issue("server", &["127.0.0.1"]);
        fs::create_dir_all(folder.join("data")).unwrap();
        let mut server = Self {
            port: free_port(),
            folder,
            authority,
            process: None,
            disk,
        };
        let config = format!(
            "listen: \"127.0.0.1:{}\"\n{}\n{}",
            server.port,
            server.tls("server"),
            config(&server)
        );
        fs::write(server.folder.join("server.conf"), config).unwrap();
        server.begin();
        server
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    /// The certificate of this name, and the authority of those who connect.
    fn tls(&self, name: &str) -> String {
        let file = |name: &str| self.authority.folder.join(name).display().to_string();
        format!(
            r#"tls {{ cert_file: "{}", key_file: "{}", ca_file: "{}", verify_and_map: true }}"#,
            file(&format!("{name}.pem")),
            file(&format!("{name}.key")),
            file("ca.pem")
        )
    }

    /// Starts the process (again), and waits until it listens.
    pub fn begin(&mut self) {
        let mut command = match self.disk {
            None => Command::new("nats-server"),
            Some(size) => {
                let mut command = Command::new("unshare");
                let script =
                    "mount -t tmpfs -o size=$2 tmpfs \"$1\" && shift 2 && exec nats-server \"$@\"";
                command.args([
                    "--user",
                    "--map-root-user",
                    "--mount",
                    "sh",
                    "-c",
                    script,
                    "sh",
                ]);
                command.arg(self.folder.join("data")).arg(size);
                command
            }
        };
        command.arg("-c").arg(self.folder.join("server.conf"));
        let errors = fs::File::create(self.folder.join("errors")).unwrap();
        let process = command.stdout(Stdio::null()).stderr(errors).spawn();
        let process = self.process.insert(process.unwrap());
        let port = self.port;
        super::support::wait_until("the server answers", || {
            let ended = process.try_wait().unwrap();
            let errors = || fs::read_to_string(self.folder.join("errors")).unwrap();
            assert!(ended.is_none(), "{}", errors());
            let mut word = [0; 4];
            let stream = std::net::TcpStream::connect(("127.0.0.1", port));
            let read = stream.and_then(|mut stream| {
                stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
                std::io::Read::read_exact(&mut stream, &mut word)
            });
            read.is_ok() && word == *b"INFO"
        });
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.process.as_ref().unwrap()), signal).unwrap();
    }

    /// Kills it by SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Removes its data.
    pub fn lose_data(&self) {
        fs::remove_dir_all(self.folder.join("data")).unwrap();
        fs::create_dir(self.folder.join("data")).unwrap();
    }

    /// Settings of a host with a certificate of this name.
    pub fn settings(&self, host: &str) -> String {
        let (cert, key) = self.authority.issue(host, &[]);
        self.settings_with(host, &self.authority.ca(), &cert, &key)
    }

    pub fn settings_with(&self, host: &str, ca: &Path, cert: &Path, key: &Path) -> String {
        format!(
            "store = \"nats://127.0.0.1:{}\"\nplace = \"fra1\"\nhost = \"{host}\"\nca_file = \"{}\"\ncert_file = \"{}\"\nkey_file = \"{}\"\nsay_every_s = 0.1\nhear_every_s = 0.1\ntimeout_s = 1\npublish_bytes_per_s = 1e9\n",
            self.port,
            ca.display(),
            cert.display(),
            key.display()
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
