//! The machine's limits.

/// Files that are no client's connection: logs, stores, listeners, the runtime's own.
const FILES_ASIDE: u64 = 256;
/// A proxied connection is two: the client's and the shop's.
const FILES_PER_CONNECTION: u64 = 2;

/// Raises the soft file limit to the hard one, and lowers `max_connections` to what that carries.
pub(super) fn raise(max_connections: &mut usize) {
    let files = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(files) => files,
        Err(error) => {
            tracing::warn!(%error, "the file limit could not be raised");
            return;
        }
    };
    let carried = carried(files);
    if *max_connections > carried {
        tracing::warn!(
            from = *max_connections,
            to = carried,
            files,
            "limits.max_connections is lowered to what the file limit carries: raise it (ulimit -Hn)"
        );
        *max_connections = carried;
    }
}

fn carried(files: u64) -> usize {
    let connections = files.saturating_sub(FILES_ASIDE) / FILES_PER_CONNECTION;
    usize::try_from(connections).unwrap_or(usize::MAX).max(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_limit_still_carries_some_connections() {
        assert_eq!(carried(1024), 384);
        assert_eq!(carried(100), 16);
        assert_eq!(carried(1_048_576), 524_160);
    }
}
