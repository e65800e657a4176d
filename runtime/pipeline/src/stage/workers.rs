//! The threads' own loops.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saltica_vision::Detections;

use super::health::{Fate, Fates, Histogram, Pulse};
use super::model::{Decode, Follow, Infer, Prepare};
use super::roll::Stage;
use crate::batch::{Batcher, Decision, MAX_BATCH, MemoryState, Reason, Run};
use crate::clock::{Clock, RealClock, Time};
use crate::frame::{Frame, FrameInfo, lock};
use crate::lane::Lane;
use crate::ring::{Bell, FrameRing, Keep};
use crate::sink::{Feed, Sinks, StageTimes};

/// The longest silence of a thread that is well.
pub(super) const NAP: Duration = Duration::from_millis(50);
/// How often memory is looked at.
const MEMORY_EVERY: Duration = Duration::from_secs(1);

/// What all threads see.
pub(super) struct Shared {
    pub(super) batcher: Mutex<Batcher>,
    pub(super) sources: Vec<Came>,
    pub(super) ages: Histogram,
    pub(super) stop: AtomicBool,
    /// Batches that were prepared and have not been run to their end.
    pub(super) pending: AtomicUsize,
    /// When the running one is expected to end, in nanoseconds; 0: it is just being handed over.
    pub(super) busy_until: AtomicU64,
    /// Nanoseconds that decoding a batch has taken lately.
    pub(super) tail: AtomicU64,
    pub(super) bell: Arc<Bell>,
}

/// What became of a source's frames.
#[derive(Default)]
pub(super) struct Came {
    pub(super) fates: Fates,
    /// Since when frames were taken in without one being answered, in nanoseconds; 0: none waits.
    unanswered: AtomicU64,
}

impl Came {
    /// For how long frames were taken in without one being answered.
    pub(super) fn unanswered(&self, now: Time) -> Duration {
        match self.unanswered.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => now.since(Time::from_nanos(since)),
        }
    }
}

impl Shared {
    /// No more batches: what is on its way is answered, what waits is given up.
    pub(super) fn halt(&self) {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
    }

    fn count(&self, source: u32, fate: Fate) {
        if let Some(came) = self.sources.get(source as usize) {
            came.fates.count(fate);
            if fate == Fate::Answered {
                came.unanswered.store(0, Ordering::Relaxed);
            }
        }
    }

    /// A frame that is to be answered was taken in.
    fn came(&self, source: usize, now: Time) {
        if let Some(came) = self.sources.get(source) {
            let since = &came.unanswered;
            // Another value than 0 stays.
            let _ = since.compare_exchange(0, now.nanos(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// A frame of a job.
#[derive(Clone, Copy)]
pub(super) struct Member {
    info: FrameInfo,
    failed: bool,
}

/// A batch on its way.
pub(super) struct Job<B> {
    tensors: B,
    members: Vec<Member>,
    /// How many of them are counted already.
    settled: usize,
    /// Those frames whose picture a sink wants; before they are prepared, all.
    pictures: Vec<Option<Frame>>,
    run: Option<Run>,
    expected: Duration,
    taken: Time,
    prepare: Duration,
    infer: Duration,
}

impl<B> Job<B> {
    pub(super) fn new(tensors: B) -> Job<B> {
        Job {
            tensors,
            members: Vec::with_capacity(MAX_BATCH),
            settled: 0,
            pictures: Vec::with_capacity(MAX_BATCH),
            run: None,
            expected: Duration::ZERO,
            taken: Time::ZERO,
            prepare: Duration::ZERO,
            infer: Duration::ZERO,
        }
    }

    /// Gives up what is not counted yet.
    fn abandon(&mut self, shared: &Shared, fate: Fate) {
        for member in &self.members[self.settled..] {
            shared.count(member.info.source.0, fate);
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.members.clear();
        self.pictures.clear();
        self.settled = 0;
    }
}

/// Takes nothing more, and gives up what is left.
fn shut<B>(lane: &Lane<Job<B>>, shared: &Shared) {
    lane.close();
    while let Some(mut job) = lane.pop(Duration::ZERO) {
        job.abandon(shared, Fate::Stopped);
    }
}

/// Takes frames from the rings, decides, prepares.
pub(super) struct BatchWorker<B> {
    pub(super) shared: Arc<Shared>,
    pub(super) rings: Vec<Arc<FrameRing>>,
    /// Frames of each source that wait for the batcher's decision.
    pub(super) held: Vec<Vec<Frame>>,
    pub(super) prepare: Box<dyn Prepare<B>>,
    pub(super) free: Arc<Lane<Job<B>>>,
    pub(super) out: Arc<Lane<Job<B>>>,
    /// Decide as late as possible.
    pub(super) just_in_time: bool,
    /// Asked whether one wants a frame's picture, which then travels on.
    pub(super) sinks: Arc<Sinks>,
    /// The job that is filled next.
    pub(super) spare: Option<Job<B>>,
    pub(super) memory: Box<dyn FnMut() -> Option<MemoryState> + Send>,
    pub(super) pulse: Arc<Pulse>,
}

impl<B: Send + 'static> Stage for BatchWorker<B> {
    fn run(&mut self) {
        let bell = Arc::clone(&self.shared.bell);
        let mut each = Duration::ZERO;
        let mut memory_next = Time::ZERO;
        let mut last_end = Time::ZERO;
        loop {
            let seen = bell.count();
            let now = RealClock.now();
            self.pulse.beat(now);
            if self.shared.stop.load(Ordering::Acquire) {
                break;
            }
            if now >= memory_next {
                memory_next = now + MEMORY_EVERY;
                if let Some(state) = (self.memory)() {
                    lock(&self.shared.batcher).memory(now, state);
                }
            }
            let over = self.take_frames();
            if self.spare.is_none() {
                self.spare = self.free.pop(Duration::ZERO);
            }
            let mut wake = now + NAP;
            // One batch waits ready at most: more would only grow old.
            if self.spare.is_some() && self.shared.pending.load(Ordering::Acquire) < 2 {
                match self.decide(each, last_end) {
                    Ok(()) => {
                        let expected = self.fill(&mut each);
                        last_end = last_end.max(RealClock.now()) + expected;
                        if !self.launch() {
                            break;
                        }
                        self.pulse.worked(RealClock.now());
                        continue;
                    }
                    Err(until) => wake = wake.min(until),
                }
            }
            if over && self.held.iter().all(Vec::is_empty) {
                break;
            }
            bell.wait(seen, wake.since(RealClock.now()));
        }
    }

    fn end(&mut self) {
        for (source, frames) in self.held.iter_mut().enumerate() {
            for frame in frames.drain(..) {
                drop(frame);
                self.shared.count(source as u32, Fate::Stopped);
            }
        }
        if let Some(mut job) = self.spare.take() {
            job.abandon(&self.shared, Fate::Stopped);
        }
        self.free.close();
        self.out.close();
    }
}

impl<B> BatchWorker<B> {
    /// Hands the filled job on; whether somebody takes it.
    fn launch(&mut self) -> bool {
        let Some(job) = self.spare.take() else { return true };
        self.shared.pending.fetch_add(1, Ordering::AcqRel);
        match self.out.try_push(job) {
            Ok(()) => true,
            Err(job) => {
                // Given up at the end.
                self.spare = Some(job);
                false
            }
        }
    }

    /// Offers what has come; whether nothing more will.
    fn take_frames(&mut self) -> bool {
        let mut over = true;
        let mut batcher = lock(&self.shared.batcher);
        for (source, ring) in self.rings.iter().enumerate() {
            // Asked first: what was put in before it closed is seen below.
            let closed = ring.is_closed();
            while ring.keep() == Keep::Latest || batcher.has_room(source as u32) {
                let Some(frame) = ring.try_pop() else { break };
                let (id, captured, now) = (frame.id, Time::from(frame.captured), RealClock.now());
                self.held[source].push(frame);
                batcher.offer(now, source as u32, id, captured);
                release(&mut batcher, &mut self.held, &self.shared);
                // One that its rate leaves out is not missed.
                if self.held[source].last().is_some_and(|f| f.id == id) {
                    self.shared.came(source, now);
                }
            }
            over &= closed && ring.is_empty();
        }
        over
    }

    /// Asks the batcher; an error is when to ask again.
    fn decide(&mut self, each: Duration, last_end: Time) -> Result<(), Time> {
        let mut batcher = lock(&self.shared.batcher);
        let now = RealClock.now();
        let ahead = each * batcher.waiting().min(batcher.cap()) as u32;
        let busy = match (
            self.shared.pending.load(Ordering::Acquire),
            self.shared.busy_until.load(Ordering::Acquire),
        ) {
            (0, _) => now,
            (_, 0) => last_end,
            (_, until) => Time::from_nanos(until),
        };
        if self.just_in_time && now + ahead < busy {
            return Err(busy - ahead);
        }
        let tail = Duration::from_nanos(self.shared.tail.load(Ordering::Relaxed));
        let start = busy.max(now + ahead) + tail;
        let decision = batcher.decide_for(now, start);
        release(&mut batcher, &mut self.held, &self.shared);
        match decision {
            Decision::Launch => Ok(()),
            // The batcher speaks of when a run would start.
            Decision::Wait(until) => Err(until - start.since(now)),
        }
    }

    /// Moves the launched frames into the spare job and prepares them; how long their run is expected to take.
    fn fill(&mut self, each: &mut Duration) -> Duration {
        let Some(job) = &mut self.spare else { return Duration::ZERO };
        let start = RealClock.now();
        job.clear();
        {
            let mut batcher = lock(&self.shared.batcher);
            for ticket in batcher.batch() {
                let held = &mut self.held[ticket.source as usize];
                let Some(place) = held.iter().position(|f| f.id == ticket.id) else { continue };
                let frame = held.remove(place);
                job.members.push(Member { info: frame.info(), failed: false });
                job.pictures.push(Some(frame));
            }
            job.expected = Duration::from_nanos(batcher.curve().nanos(job.members.len()));
            job.run = batcher.detach();
        }
        job.taken = start;
        for (index, (member, picture)) in job.members.iter_mut().zip(&mut job.pictures).enumerate() {
            let ready =
                picture.as_ref().is_some_and(|f| self.prepare.prepare(f, &mut job.tensors, index).is_ok());
            member.failed = !ready;
            if !ready || !self.sinks.wants_picture(member.info.source, member.info.captured) {
                // The camera gets its buffer back before the network runs.
                *picture = None;
            }
        }
        job.prepare = RealClock.now().since(start);
        let latest = job.prepare / job.members.len().max(1) as u32;
        *each = if each.is_zero() { latest } else { (*each * 7 + latest) / 8 };
        job.expected
    }
}

/// Lets go of the frames that the batcher gave up.
fn release(batcher: &mut Batcher, held: &mut [Vec<Frame>], shared: &Shared) {
    while let Some((ticket, reason)) = batcher.shed() {
        let Some(frames) = held.get_mut(ticket.source as usize) else { continue };
        // The one offered last is the one that a repeated number means.
        if let Some(place) = frames.iter().rposition(|f| f.id == ticket.id) {
            frames.remove(place);
        }
        shared.count(
            ticket.source,
            match reason {
                Reason::Late => Fate::Late,
                Reason::Overload => Fate::Overload,
                Reason::Replaced => Fate::Replaced,
                Reason::Rate => Fate::Rate,
                Reason::OutOfOrder => Fate::OutOfOrder,
            },
        );
    }
}

/// Runs the network.
pub(super) struct InferWorker<B> {
    pub(super) shared: Arc<Shared>,
    pub(super) infer: Box<dyn Infer<B>>,
    pub(super) from: Arc<Lane<Job<B>>>,
    pub(super) out: Arc<Lane<Job<B>>>,
    /// The job in work.
    pub(super) job: Option<Job<B>>,
    pub(super) pulse: Arc<Pulse>,
}

impl<B: Send + 'static> Stage for InferWorker<B> {
    fn run(&mut self) {
        while !self.from.is_over() {
            self.job = self.from.pop(NAP);
            let start = RealClock.now();
            self.pulse.beat(start);
            let Some(job) = &mut self.job else { continue };
            self.shared.busy_until.store((start + job.expected).nanos(), Ordering::Release);
            self.shared.bell.ring();
            let limit = lock(&self.shared.batcher).memory_limit().max(1);
            let count = job.members.len();
            let mut ok = true;
            for first in (0..count).step_by(limit) {
                ok &= self.infer.infer(&mut job.tensors, first..(first + limit).min(count)).is_ok();
            }
            job.infer = RealClock.now().since(start);
            if let Some(run) = job.run.take() {
                lock(&self.shared.batcher).ran(run, (ok && count <= limit).then_some(job.infer));
            }
            if !ok {
                job.members.iter_mut().for_each(|m| m.failed = true);
            }
            self.shared.busy_until.store(0, Ordering::Release);
            self.shared.pending.fetch_sub(1, Ordering::AcqRel);
            self.pulse.worked(RealClock.now());
            // There are fewer jobs than places, so only a lane that was closed takes none.
            if let Some(job) = self.job.take()
                && let Err(job) = self.out.try_push(job)
            {
                self.job = Some(job);
                return;
            }
            self.shared.bell.ring();
        }
    }

    fn end(&mut self) {
        if let Some(mut job) = self.job.take() {
            job.abandon(&self.shared, Fate::Stopped);
        }
        shut(&self.from, &self.shared);
        self.out.close();
    }
}

/// Decodes, follows, hands out.
pub(super) struct DecodeWorker<B> {
    pub(super) shared: Arc<Shared>,
    pub(super) answers: Answers<B>,
    pub(super) from: Arc<Lane<Job<B>>>,
    pub(super) free: Arc<Lane<Job<B>>>,
    /// The job in work.
    pub(super) job: Option<Job<B>>,
    pub(super) pulse: Arc<Pulse>,
}

impl<B: Send + 'static> Stage for DecodeWorker<B> {
    fn run(&mut self) {
        while !self.from.is_over() {
            self.job = self.from.pop(NAP);
            let start = RealClock.now();
            self.pulse.beat(start);
            let Some(job) = &mut self.job else { continue };
            for index in 0..job.members.len() {
                let fate = self.answers.send(job, index, start, &self.shared.ages);
                self.shared.count(job.members[index].info.source.0, fate);
                job.settled = index + 1;
                self.pulse.beat(RealClock.now());
            }
            job.clear();
            let took = RealClock.now().since(start).as_nanos() as u64;
            let tail = self.shared.tail.load(Ordering::Relaxed);
            self.shared.tail.store(if tail == 0 { took } else { (tail * 7 + took) / 8 }, Ordering::Relaxed);
            self.pulse.worked(RealClock.now());
            // Nobody takes it where no batch will come any more.
            if let Some(job) = self.job.take() {
                drop(self.free.try_push(job));
            }
            self.shared.bell.ring();
        }
    }

    fn end(&mut self) {
        if let Some(mut job) = self.job.take() {
            job.abandon(&self.shared, Fate::Stopped);
        }
        shut(&self.from, &self.shared);
        self.free.close();
        self.answers.feed.sinks().finish();
    }
}

/// Makes the result of a frame.
pub(super) struct Answers<B> {
    pub(super) decode: Box<dyn Decode<B>>,
    pub(super) follow: Option<Box<dyn Follow>>,
    pub(super) feed: Feed,
    pub(super) found: Detections,
}

impl<B> Answers<B> {
    /// Decodes member `index`, follows its objects and gives the result to the sinks; decoding the job began at `start`.
    fn send(&mut self, job: &mut Job<B>, index: usize, start: Time, ages: &Histogram) -> Fate {
        let Member { info, failed } = job.members[index];
        let picture = job.pictures.get_mut(index).and_then(Option::take);
        if failed || self.decode.decode(&mut job.tensors, index, &mut self.found).is_err() {
            return Fate::Failed;
        }
        let (follow, found) = (&mut self.follow, &self.found);
        self.feed.send(&info, picture.as_ref(), |r| {
            r.set_detections(found);
            if let Some(follow) = follow {
                follow.follow(info.source, info.captured, &mut r.objects);
            }
            r.batch = job.members.len();
            let (now, captured) = (RealClock.now(), Time::from(info.captured));
            r.age = now.since(captured);
            r.times = StageTimes {
                wait: job.taken.since(captured),
                preprocess: job.prepare,
                infer: job.infer,
                postprocess: now.since(start),
            };
            ages.record(r.age);
        });
        Fate::Answered
    }
}
