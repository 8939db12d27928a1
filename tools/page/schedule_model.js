// Pipeline schedules in the browser: orders that the program made (sim/report/schedule_orders.cpp), run with any times.
//
// An order is {s: [[stage of each chunk] of each rank], r: copies of the model, a: [a text per rank]}. An action takes two
// characters of LETTERS, an overlapped pair four: number = (kind * 16 + chunk) * 64 + micro-batch.
// A box is {kind, stage, m, start, end, chunk, stage2, m2, chunk2, wait}; wait says for whom the rank was idle before it.
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%()*+,-";
const FORWARD = 0, BACKWARD = 1, INPUT = 2, WEIGHT = 3, PAIR = 4;

function decodeOrder(order) {
  const number = (text, at) => LETTERS.indexOf(text[at]) * LETTERS.length + LETTERS.indexOf(text[at + 1]);
  return order.a.map((text, rank) => {
    const list = [];
    for (let at = 0; at < text.length; at += 2) {
      const n = number(text, at), chunk = (n >> 6) & 15, action = { kind: n >> 10, chunk, m: n & 63, stage: order.s[rank][chunk] };
      if (action.kind === PAIR) {
        at += 2;
        const second = number(text, at);
        action.chunk2 = (second >> 6) & 15;
        action.m2 = second & 63;
        action.stage2 = order.s[rank][action.chunk2];
      }
      list.push(action);
    }
    return list;
  });
}

/// What an action needs from others: [what it makes, "F" or "B", stage, micro-batch]. The weight gradient needs its own rank only.
function needsOf(action, stages) {
  const needs = [];
  const forward = (stage, m) => { if (stage > 0) needs.push(`F${stage - 1},${m}`); };
  const backward = (stage, m) => { needs.push(stage + 1 < stages ? `B${stage + 1},${m}` : `F${stage},${m}`); };
  if (action.kind === FORWARD || action.kind === PAIR) forward(action.stage, action.m);
  if (action.kind === BACKWARD || action.kind === INPUT) backward(action.stage, action.m);
  if (action.kind === PAIR) backward(action.stage2, action.m2);
  return needs;
}
function makesOf(action) {
  if (action.kind === FORWARD) return [`F${action.stage},${action.m}`];
  if (action.kind === BACKWARD || action.kind === INPUT) return [`B${action.stage},${action.m}`];
  if (action.kind === PAIR) return [`F${action.stage},${action.m}`, `B${action.stage2},${action.m2}`];
  return [];
}

/// times: {f, i, w: [time of a micro-batch through the layers of each rank], latency}.
function timeOf(action, rank, times, parts) {
  const f = times.f[rank] / parts, i = times.i[rank] / parts, w = times.w[rank] / parts;
  return [f, i + w, i, w, f + i + w][action.kind];
}

/// Runs the order: every rank does its actions in order, each when what it needs has arrived. Returns the boxes of each rank.
function runOrder(order, times) {
  const actions = decodeOrder(order), parts = order.s[0].length / order.r, stages = order.s.length * parts;
  const made = new Map(), at = actions.map(() => 0), free = actions.map(() => 0), rows = actions.map(() => []);
  for (let moved = true; moved;) {
    moved = false;
    actions.forEach((list, rank) => {
      for (; at[rank] < list.length; ++at[rank]) {
        const action = list[at[rank]], needs = needsOf(action, stages).map(key => made.get(key));
        if (needs.some(need => need === undefined)) break;
        let start = free[rank], wait = null;
        for (const need of needs) {
          const arrives = need.end + (need.rank === rank ? 0 : times.latency);
          if (arrives > start) { start = arrives; wait = { rank: need.rank, what: need.what, sent: need.end }; }
        }
        const end = start + timeOf(action, rank, times, parts), box = { ...action, start, end, wait, idle: start - free[rank] };
        rows[rank].push(box);
        for (const key of makesOf(action)) made.set(key, { rank, end, what: key });
        free[rank] = end;
        moved = true;
      }
    });
  }
  if (at.some((index, rank) => index < actions[rank].length)) throw new Error("the order has a cycle");
  return rows;
}

/// The numbers of a run, as sim/schedule/schedule_run.hpp defines them.
function numbersOf(rows) {
  const work = rows.map(list => list.reduce((sum, b) => sum + b.end - b.start, 0));
  const length = Math.max(...rows.map(list => list.at(-1)?.end ?? 0));
  const span = Math.max(...rows.map(list => list.length ? list.at(-1).end - list[0].start : 0));
  const mean = work.reduce((a, b) => a + b, 0) / work.length;
  return { length, work: Math.max(...work), bubble: Math.max(0, 1 - mean / length), own: Math.max(0, 1 - mean / span) };
}

/// Sends that wait for their receives, in program order: receive, compute, send. Returns null, or the cycle of waits as
/// sentences, one for each rank in it. This is how a naive runtime deadlocks: rank 0 sends a micro-batch down while rank 1
/// sends a gradient up, and neither receives.
function rendezvousDeadlock(order) {
  const actions = decodeOrder(order), parts = order.s[0].length / order.r, stages = order.s.length * parts;
  const owner = new Map(), users = new Map();
  actions.forEach((list, rank) => list.forEach(a => {
    for (const key of makesOf(a)) owner.set(key, rank);
    for (const key of needsOf(a, stages)) users.set(key, [...(users.get(key) ?? []), rank]);
  }));
  const programs = actions.map((list, rank) => list.flatMap(a => [
    ...needsOf(a, stages).filter(key => owner.get(key) !== rank).map(key => ({ kind: "receive", key, peer: owner.get(key) })),
    ...makesOf(a).flatMap(key => (users.get(key) ?? []).filter(to => to !== rank).map(to => ({ kind: "send", key, peer: to })))]));
  const at = programs.map(() => 0);
  for (let moved = true; moved;) {
    moved = false;
    programs.forEach((list, rank) => {
      const mine = list[at[rank]], theirs = mine && programs[mine.peer][at[mine.peer]];
      if (mine?.kind === "send" && theirs?.kind === "receive" && theirs.key === mine.key && theirs.peer === rank) {
        ++at[rank];
        ++at[mine.peer];
        moved = true;
      }
    });
  }
  let rank = programs.findIndex((list, r) => at[r] < list.length);
  if (rank < 0) return null;
  const seen = [];
  while (!seen.includes(rank)) { seen.push(rank); rank = programs[rank][at[rank]].peer; }
  const name = key => `${key[0] === "F" ? "the activations" : "the gradient"} of micro-batch ${key.split(",")[1]}`;
  return seen.slice(seen.indexOf(rank)).map(r => {
    const op = programs[r][at[r]];
    return op.kind === "send" ? `rank ${r} sends ${name(op.key)} to rank ${op.peer}, which does not receive it yet`
                              : `rank ${r} waits to receive ${name(op.key)} from rank ${op.peer}`;
  });
}
