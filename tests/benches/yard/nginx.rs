//! nginx: as a server of files, as the origin, as a proxy.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use nix::unistd::geteuid;
use tempfile::TempDir;

use super::certificate::Certificate;
use super::load::Target;
use super::running::{Running, find, free_address};

/// What one nginx serves.
pub(crate) enum Site<'a> {
    /// Files by name, in folders as their names say.
    Files(&'a [(&'a str, Vec<u8>)]),
    /// What an origin has.
    Proxy(SocketAddr),
}

/// A running nginx.
pub(crate) struct Nginx {
    pub(crate) http: SocketAddr,
    pub(crate) https: Option<SocketAddr>,
    running: Running,
    _folder: TempDir,
}

impl Nginx {
    /// Starts one; with a certificate it listens for TLS 1.3 and 1.2 too.
    pub(crate) fn start(
        workers: usize,
        site: &Site<'_>,
        certificate: Option<&Certificate>,
    ) -> Result<Self> {
        let program = find("nginx")?;
        let folder = TempDir::with_prefix("yard-nginx-")?;
        let http = free_address()?;
        let https = certificate.map(|_| free_address()).transpose()?;
        let secured = certificate.zip(https);
        let server = server(folder.path(), http, secured, site)?;
        let config = config(workers, folder.path(), &server);
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, config)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder.path()).arg("-c").arg(&file).arg("-e").arg("stderr");
        let running = Running::start(command, folder.path(), http)?;
        Ok(Self { http, https, running, _folder: folder })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// A path by plain http.
    pub(crate) fn plain(&self, path: &str) -> Target {
        Target::new(format!("http://{}{path}", self.http), self.pid())
    }

    /// A path by https, if it listens for that.
    pub(crate) fn secure(&self, path: &str) -> Option<Target> {
        self.https.map(|https| Target::new(format!("https://{https}{path}"), self.pid()))
    }
}

fn config(workers: usize, folder: &Path, server: &str) -> String {
    // Its workers would be nobody's, and could not read the folder.
    let user = if geteuid().is_root() { "user root;\n" } else { "" };
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {}/{what};\n", folder.display()))
        .concat();
    format!(
        "{user}worker_processes {workers};
daemon off;
pid {}/pid;
error_log stderr crit;
events {{ worker_connections 9000; }}
http {{
{temp}access_log off;
sendfile on;
tcp_nopush on;
default_type text/html;
keepalive_timeout 75s;
keepalive_requests 1000000000;
open_file_cache max=1000 inactive=60s;
open_file_cache_valid 60s;
{server}}}
",
        folder.display()
    )
}

fn server(
    folder: &Path,
    http: SocketAddr,
    secured: Option<(&Certificate, SocketAddr)>,
    site: &Site<'_>,
) -> Result<String> {
    let mut listen = format!("listen {http} backlog=4096;\n");
    if let Some((certificate, https)) = secured {
        write!(
            listen,
            "listen {https} ssl http2 backlog=4096;\nssl_certificate {};\n\
             ssl_certificate_key {};\nssl_protocols TLSv1.2 TLSv1.3;\n",
            certificate.cert.display(),
            certificate.key.display()
        )?;
    }
    match site {
        Site::Files(files) => {
            let root = folder.join("files");
            for (name, bytes) in *files {
                let file = root.join(name);
                std::fs::create_dir_all(file.parent().unwrap_or(&root))?;
                std::fs::write(file, bytes)?;
            }
            Ok(format!("server {{\n{listen}root {};\n}}\n", root.display()))
        }
        // Bodies of 64 KB fit into the buffers: no temporary files.
        Site::Proxy(origin) => Ok(format!(
            "upstream origin {{\nserver {origin};\nkeepalive 1024;\n\
             keepalive_requests 1000000000;\n}}\nserver {{\n{listen}location / {{\n\
             proxy_pass http://origin;\nproxy_http_version 1.1;\n\
             proxy_set_header Connection \"\";\nproxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-For $remote_addr;\n\
             proxy_buffers 16 16k;\nproxy_busy_buffers_size 64k;\n\
             proxy_max_temp_file_size 0;\n}}\n}}\n"
        )),
    }
}
