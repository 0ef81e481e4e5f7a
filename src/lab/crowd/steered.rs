//! What was seen while the sale was steered. Nothing in here is a judgement.

/// The steps taken, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Steering {
    /// Each one.
    pub steps: Vec<Step>,
    /// The rate before, per second.
    pub rate_before: f64,
    /// Why not all steps were taken.
    pub trouble: Option<String>,
}

/// One step, on the crowd's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What was asked for.
    pub act: Act,
    /// When, Unix milliseconds.
    pub sent_ms: u64,
    /// When it was acknowledged.
    pub acked_ms: u64,
    /// What each node did about it.
    pub nodes: Vec<NodeSeen>,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    /// This rate, per second.
    Rate(f64),
    /// Nobody is admitted.
    Pause,
    /// Pause, and all admissions become void.
    Stop,
    /// Go on.
    Resume,
}

/// How one node followed a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// Which one, and what of it was looked at.
    pub name: String,
    /// When the last question was sent that was answered as before the step.
    pub stale_ms: Option<u64>,
    /// When the first question was sent that was answered as asked for; nothing if there was none.
    pub fresh_ms: Option<u64>,
}

impl Act {
    /// Its name in reports.
    pub fn name(self) -> String {
        match self {
            Self::Rate(rate) => format!("rate {rate}/s"),
            Self::Pause => "pause".to_owned(),
            Self::Stop => "stop".to_owned(),
            Self::Resume => "resume".to_owned(),
        }
    }
}

impl NodeSeen {
    /// How long after the acknowledgement the node still did as before, in milliseconds.
    pub fn late_ms(&self, step: &Step) -> u64 {
        self.stale_ms.map_or(0, |stale| stale.saturating_sub(step.acked_ms))
    }
}
