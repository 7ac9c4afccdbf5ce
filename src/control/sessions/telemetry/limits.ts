// All limits of the service's side of telemetry. Limits of the agent's side: src/agent/telemetry/limits.ts; of one event: its contract.
import { MAX_EVENT, MAX_SCREENSHOT_EVENT } from '../../../agent/telemetry/contract.ts'

const [KIB, MIB] = [1024, 1024 * 1024]

// ---- follow: one session

/** Wait for an agent to begin its answer. */
export const OPEN_MS = 10_000
/** An agent sends something every second, so one that is silent for this time has failed. */
export const SILENCE_MS = 15_000
/** Wait between two attempts to reach an agent: doubled up to the last. */
export const RETRY_MS = 250
export const LAST_RETRY_MS = 10_000
/** Interval of checking whether a session that sleeps, or is not here, can be read. */
export const ABSENT_MS = 1_000
/** One line of a feed: the longest event, in an envelope. */
export const MAX_LINE = MAX_SCREENSHOT_EVENT + 4 * KIB
/** Most JSON values in the lines that arrive at once: one for eight bytes. Each takes its own memory. */
export const MAX_VALUES = (MAX_LINE + 256 * KIB) / 8
/** The cost of an event in addition to its bytes, in bytes: parsing, checking and packing. */
export const EVENT_COST = KIB
/**
 * Read rate of one session: first as much as its agent captures in some seconds; after that the agent's buffer holds some seconds more. A session that was
 * taken over must not overload the service.
 */
export const SESSION_RATE = { perSecond: 4 * MIB, atOnce: 48 * MIB }
/** Read rate of all sessions together. What exceeds it waits in the agents. */
export const TOTAL_RATE = { perSecond: 40 * MIB, atOnce: 144 * MIB }
/** A session at its limit, of which no more is stored, is read this many times slower. */
export const FULL_FACTOR = 64
/** How far the clock of another machine may be ahead of ours, in microseconds. An event dated tomorrow would be kept a day longer. */
export const MAX_AHEAD_US = 60_000_000
/** Greatest age of the first event of a session, in microseconds. An older one would be removed too early, or look like an event of an earlier caller. */
export const MAX_BEFORE_US = 3_600_000_000
/** Most levels of an event: recursive functions process it. */
export const MAX_DEPTH = 32
/** Length of an event without a picture, in characters: the agent's limit, and some room for numbers and names that are serialized differently. */
export const MAX_LENGTH = MAX_EVENT + KIB
/** Limit on the uncompressed data, as a multiple of the limit on stored bytes: all of it is decompressed when it is listed or exported. */
export const RAW_TIMES = 8
/** The most that one gap counts in metrics: its numbers come from the agent. */
export const MAX_COUNTED = 100_000

// ---- follow: which sessions

/** Interval at which a replica looks for sessions whose telemetry setting another replica has changed. */
export const LOOK_MS = 1_000
/** Sessions whose stored position is read at the same time when a replica takes over many: calls need connections to the database, too. */
export const POSITIONS_AT_ONCE = 3
/** Interval of checking whether the archive of a session at its limit was deleted. */
export const RECOUNT_MS = 5_000
/** Limit on the step of a session's end that reads and stores the remaining events. */
export const END_MS = 10_000
/** The part of it for closing the agent's buffer and reading the rest. */
export const REST_MS = 3_000

// ---- store

/** How long the first event waits for others. Including the statement, an event is stored within half a second. */
export const GATHER_MS = 250
/** Wait after a failed statement: doubled up to the last. */
export const STORE_RETRY_MS = 500
export const LAST_STORE_RETRY_MS = 8_000
/** Size of one statement, in bytes of its runs. Each run counts at least the second number, so a statement has some thousands at most. */
export const STATEMENT_BYTES = 8 * MIB
export const LEAST_RUN_BYTES = 16 * KIB
/**
 * Limits on the data that waits in memory, of one session and of all, for example while the database is away. Above them, reading stops, and the agents keep
 * the last events.
 */
export const SESSION_WAITING_BYTES = 2 * MIB
export const TOTAL_WAITING_BYTES = 64 * MIB
/** A run of this size, before compression, is stored alone. */
export const RUN_BYTES = 256 * KIB
/** The same for a merged run. A reader has one of them in memory. */
export const MERGED_BYTES = 2 * MIB
/** Largest size of a stored run in memory: its last event may be long. */
export const MAX_RUN_BYTES = 8 * MIB
/** Compression levels of zstd: for a new run, and for a merged one, which takes 25 ms. */
export const FAST_LEVEL = 3
export const SMALL_LEVEL = 9
/** A merged run with fewer bytes stays in its row: an object of its own would cost more. */
export const OBJECT_BYTES = 32 * KIB
export const MAX_OBJECT_BYTES = 16 * MIB
/** A live session with more runs than this is merged. */
export const MANY_RUNS = 256
/** Runs and sessions in one query for merging. */
export const MERGE_RUNS_AT_ONCE = 32
export const MERGE_SESSIONS_AT_ONCE = 100
/** Interval of looking for sessions to merge. */
export const MERGE_MS = 2_000
/** A session that could not be merged is retried after this time. */
export const MERGE_FAILED_MS = 3600_000
/** Rows in one statement that removes old telemetry. */
export const REMOVED_AT_ONCE = 500

// ---- read

/** How far a reader without a given time looks back. */
export const LOOKBACK_MS = 5 * 60_000
/** How long a reader waits until new events are stored. */
export const FLUSH_MS = 2_000
/** Runs per query. A run in a row usually has at most 250 KB, and 1 MB with a screenshot. */
export const READ_RUNS_AT_ONCE = 4
/** Characters in one page: a hundred screenshots would be a hundred megabytes. */
export const PAGE_LENGTH = 4 * MIB
/** Sessions in one round of a deletion by age. */
export const DELETED_AT_ONCE = 100
/** HAR files that are made at once, because each may hold some tens of megabytes. And how long another one waits for its turn. */
export const HARS_AT_ONCE = 4
export const HAR_WAIT_MS = 30_000
/**
 * Entries that wait for their answer, or after such an entry: entries are in the order of their requests. Above this, the first one is written without its
 * answer.
 */
export const HAR_WAITING = 2_000
export const HAR_WAITING_LENGTH = 32 * MIB
/** Pages of a HAR are written last, so all are in memory. Requests of further pages belong to no page. */
export const HAR_PAGES = 5_000
/** Limit on the title of a page (its address) and on names of requests and targets, in characters. They are kept until the request is answered. */
export const HAR_TITLE = 2_048
export const HAR_KEY = 200

// ---- read: lists of events for people

/** Number of fields of an event that are read. */
export const SHOWN_FACTS = 60
export const SHOWN_BLOCKS = 20
export const SHOWN_ROWS = 300
export const SHOWN_DEPTH = 8
/** Limit on the sides of a picture. One of a megabyte may have a billion pixels, which would block the viewer's browser. */
export const SHOWN_SIDE = 8192
/** Characters of a text in a brief view. A page controls the length of its texts, and each is searched for addresses. */
export const BRIEF_TEXT = 4_000

// ---- read: destinations

/** Each destination may take a connection or more. */
export const MOST_DESTINATIONS = 100
/** Bytes of all header names and values of one destination. */
export const MAX_HEADER_BYTES = 8192

// ---- read: exports

/** One request. A larger record is sent alone. */
export const BATCH_RECORDS = 512
export const BATCH_BYTES = MIB
/** Sessions that are exported at the same time: to all destinations, and to one. Each holds a batch, and a run of the archive. */
export const EXPORTS_AT_ONCE = 32
export const EXPORTS_AT_ONCE_EACH = 4
/** Sessions of one destination that one query finds. They are exported in turn before the next query. */
export const EXPORTS_FOUND = 256
/** Requests for one session before other sessions get its slot. */
export const BATCHES_IN_TURN = 16
/** Interval of looking for events to deliver, and delay after a first failure. */
export const EXPORT_MS = 1_000
/** Longest delay between two attempts with a failing destination. It is short, so that the export continues soon after the destination works again. */
export const MOST_BACKOFF_MS = 60_000
/** Interval at which exports that are too far behind are dropped, finished ones are marked, and delivered objects are deleted. */
export const UPKEEP_MS = 5_000
/** After the end of a session, its last events may take this long to be stored. */
export const OVER_MS = 60_000
/** Exports and addresses whose state is kept between turns. */
export const MOST_REMEMBERED = 2_000
/** An address that refuses traces is tried again after this time. */
export const NO_TRACES_MS = 10 * 60_000
/**
 * How long an address that accepts log records may fail to accept spans. After that, its spans are given up, and the log records continue without them. A
 * restart of its traces pipeline takes less time.
 */
export const SPANS_WAIT_MS = 2 * 60_000
/** A failure is forgotten if no other one follows within this time. It is longer than any delay that an address may ask for. */
export const SPANS_FORGET_MS = 30 * 60_000
/** One request with its answer; how many bytes of the answer are read; the longest delay that it may ask for. */
export const SEND_MS = 10_000
export const MAX_ANSWER = 64 * KIB
export const MAX_RETRY_AFTER_MS = 10 * 60_000
/**
 * One record: number of attributes, length of each text, of all of them, of its body, entries of a list, levels. Data above these limits is dropped and counted
 * in the record.
 */
export const RECORD_ATTRIBUTES = 128
export const RECORD_TEXT = 8 * KIB
export const RECORD_LENGTH = 48 * KIB
export const RECORD_BODY = KIB
export const RECORD_ITEMS = 64
export const RECORD_DEPTH = 5
/** Navigations whose load may still come, or be sent again. */
export const MOST_NAVIGATIONS = 64
