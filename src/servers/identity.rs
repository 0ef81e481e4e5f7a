//! As whom the stores run: `initdb` refuses root, and root's home is closed to others.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use nix::unistd::{User, geteuid};

/// Users that a root process drops to, the first that exists.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// The user that owns the folder and runs the servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    /// The user and group to change to; nothing when we are not root.
    drop_to: Option<(u32, u32)>,
}

impl Identity {
    /// Ourselves, unless we are root.
    pub(super) fn unprivileged() -> Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self { drop_to: None });
        }
        for name in UNPRIVILEGED {
            if let Some(user) = User::from_name(name).context("looking up a user")? {
                return Ok(Self { drop_to: Some((user.uid.as_raw(), user.gid.as_raw())) });
            }
        }
        Err(anyhow!(
            "running as root, and neither user postgres nor nobody exists to run the stores"
        ))
    }

    /// The id of that user.
    pub(super) fn uid(self) -> u32 {
        self.drop_to.map_or_else(|| geteuid().as_raw(), |(uid, _)| uid)
    }

    /// Makes `command` run as that user; std drops the supplementary groups with it.
    pub(super) fn apply(self, command: &mut Command) {
        if let Some((uid, gid)) = self.drop_to {
            command.uid(uid).gid(gid);
        }
    }

    /// Whether that user gets as far as `path`; every folder above it must let him pass.
    pub(super) fn can_enter(self, path: &Path) -> Result<()> {
        let mut command = Command::new("true");
        // Changed to after the user is.
        command.current_dir(path);
        self.apply(&mut command);
        match command.status() {
            Ok(_) => Ok(()),
            Err(error) => Err(anyhow!(
                "the stores do not run as root but as the user postgres, who cannot enter {}: \
                 {error}; name a folder he can reach, as --data /var/lib/stanchion",
                path.display()
            )),
        }
    }

    /// Hands `path` to that user.
    pub(super) fn own(self, path: &Path) -> Result<()> {
        if let Some((uid, gid)) = self.drop_to {
            std::os::unix::fs::chown(path, Some(uid), Some(gid))
                .with_context(|| format!("handing {} to the stores' user", path.display()))?;
        }
        Ok(())
    }
}
