//! A Redis that may forget counters when its memory is full is no place for a room.

use redis::FromRedisValue;

use super::connection::{Link, RedisFailure, RedisStore};

impl RedisStore {
    /// What is wrong with the servers' `maxmemory-policy`, and its cure: one sentence for each
    /// primary that evicts; none is as it should be.
    pub async fn evicting(&self) -> Result<Vec<String>, RedisFailure> {
        let ask = redis::cmd("INFO").arg("memory").to_owned();
        let told: Vec<(String, String)> = match self.link() {
            Link::Single(_) | Link::Sentinel(_) => {
                vec![("Redis".to_owned(), self.command(&ask).await?)]
            }
            Link::Cluster(cluster) => {
                let answers = self.within(cluster.ask_all(&ask)).await?.into_iter();
                let named = |((host, port), memory)| {
                    let memory = String::from_redis_value(memory);
                    let memory =
                        memory.map_err(|error| RedisFailure::Garbled(error.to_string()))?;
                    Ok((format!("Redis at {host}:{port}"), memory))
                };
                answers.map(named).collect::<Result<_, RedisFailure>>()?
            }
        };
        Ok(told.iter().filter_map(|(server, memory)| complaint(server, memory)).collect())
    }
}

fn complaint(server: &str, memory: &str) -> Option<String> {
    let policy = memory.lines().find_map(|line| line.trim().strip_prefix("maxmemory_policy:"))?;
    (policy != "noeviction").then(|| {
        format!(
            "{server} runs with maxmemory-policy {policy}: it would forget counters when full; set \
             noeviction"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_policy_that_evicts_is_complained_of_and_its_cure_is_named() {
        let memory = |policy: &str| format!("used_memory:1\r\nmaxmemory_policy:{policy}\r\n");
        assert_eq!(complaint("Redis", &memory("noeviction")), None);
        assert_eq!(complaint("Redis", "used_memory:1\r\n"), None);
        let said = complaint("Redis at h:1", &memory("allkeys-lru")).unwrap();
        assert!(
            said.contains("h:1") && said.contains("allkeys-lru") && said.contains("noeviction")
        );
    }
}
