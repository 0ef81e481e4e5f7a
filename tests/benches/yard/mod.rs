//! What others reach on the same machine in the same minute: nginx and haproxy as anybody would
//! set them up to be fast, measured by the same load as we are.
//!
//! Programs are started on free loopback ports with configurations in a folder of their own, and
//! end when dropped. Nothing here asserts.
#![allow(dead_code, unused_imports, reason = "each program that measures uses a part of it")]

mod certificate;
mod haproxy;
mod load;
mod nginx;
mod process;
mod running;
mod seen;

pub(crate) use certificate::Certificate;
pub(crate) use haproxy::Haproxy;
pub(crate) use load::{Load, Target};
pub(crate) use nginx::{Nginx, Site};
pub(crate) use process::{cpu, pss_kib};
pub(crate) use seen::{Seen, Table};
