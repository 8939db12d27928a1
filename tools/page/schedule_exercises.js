// Exercises: predict a number, then see the picture that gives it. Every answer comes from a run in the page.
const runOf = values => { const s = { ...labState, stages: 4, microbatches: 8, chunks: 2, f: 1, i: 1, w: 1, latency: 0, rank: -1, own: {}, limit: 0, second: "", ...values }; return { s, view: labView(s.first, s) }; };
const percentText = share => `${(100 * share).toFixed(1)} %`;
const mostKept = view => Math.max(...view.peaks) * view.unit;
const EXERCISES = [
  { title: "The bubble of GPipe", set: { first: "gpipe", second: "" }, unit: "%", near: 0.6,
    ask: "GPipe does all forwards, then all backwards. 4 ranks, 8 micro-batches, and a backward takes twice as long as a forward. What share of the step is a rank idle, in percent?",
    answer: view => 100 * view.bubble,
    why: view => `${percentText(view.bubble)}: the pipeline fills and drains in P − 1 = 3 steps of 11, so (P − 1) / (M + P − 1) = 3/11. Whether backwards take longer does not matter. Try more micro-batches: the 3 stays, the 11 grows.` },
  { title: "Why 1F1B saves memory", set: { first: "gpipe", second: "1f1b" }, unit: "micro-batches", near: 0.01, of: "1f1b",
    ask: "GPipe keeps the activations of all 8 micro-batches. 1F1B does a backward as soon as it can. How many micro-batches does the first rank keep at most?",
    answer: view => mostKept(view),
    why: (view, other) => `${fmt(mostKept(view))}, the number of ranks, however many micro-batches there are; GPipe keeps ${fmt(mostKept(other))}. The bubble is the same, ${percentText(view.bubble)}: 1F1B saves memory, not time.` },
  { title: "What interleaving costs", set: { first: "1f1b", second: "interleaved-1f1b", chunks: 2 }, unit: "%", near: 0.6, of: "interleaved-1f1b",
    ask: "Each rank now holds two chunks of layers, each half as long (interleaved 1F1B, V = 2). What is the bubble, in percent?",
    answer: view => 100 * view.bubble,
    why: (view, other) => `${percentText(view.bubble)}: filling takes half as long, (P − 1) / (V M + P − 1) = 3/19. It costs ${fmt(mostKept(view))} micro-batches of activations instead of ${fmt(mostKept(other))}, and twice the messages. Move the latency to 0.5: which of the two suffers more?` },
  { title: "Zero bubble", set: { first: "1f1b", second: "zb-h1" }, unit: "%", near: 0.6, of: "zb-h1",
    ask: "A backward is two jobs: the input gradient, for which another rank waits, and the weight gradient, for which nobody waits. ZB-H1 uses weight gradients to fill the bubble, with the memory of 1F1B. What is left of 27.3 %?",
    answer: view => 100 * view.bubble,
    why: (view, other) => `${percentText(view.bubble)}: (P − 1)(F + I − W) = 3 units of waiting are left of ${fmt(other.length - 24)}. It keeps ${fmt(mostKept(view))} micro-batches, as 1F1B does.` },
  { title: "The price of no bubble", set: { first: "zb-h1", second: "zb-h2" }, unit: "micro-batches", near: 0.01, of: "zb-h2",
    ask: "ZB-H2 has no bubble at all between a rank's first and last action. How many micro-batches does its first rank keep?",
    answer: view => mostKept(view),
    why: (view, other) => `${fmt(mostKept(view))} = 2 P − 1, against ${fmt(mostKept(other))}: more forwards must run before the first backward returns. The column "own span" has ${percentText(view.own_span_bubble)}: ranks start one after the other, but none waits in between.` },
  { title: "Where tensor parallelism changes the answer", set: { first: "1f1b", second: "zb-h1", i: 1.8 }, choices: ["1F1B", "ZB-H1"], of: "zb-h1",
    ask: "With tensor parallelism a backward has transfers that the weight gradient hides. ZB-H1 takes the weight gradient away, so the input gradient then takes 1.8 instead of 1; a whole backward still takes 2. 1F1B needs 33. Which one is faster?",
    answer: view => view.length < 33 ? 1 : 0,
    why: view => `ZB-H1 needs ${fmt(view.length)}, 1F1B 33 (set I to 1 to see it: the picture above also counts the 0.8 for 1F1B). A schedule that splits the backward pays for what the whole one hid. tracecast predict has this effect, a picture with three times does not.` },
  { title: "A deadlock", set: { first: "1f1b", second: "" }, choices: ["it runs", "it stops"],
    ask: "A naive program: each rank receives, computes, sends, in the order of 1F1B, and a send returns only when the other side receives. Does it run?",
    answer: () => rendezvousDeadlock(orderOf("1f1b", { stages: 4, microbatches: 8, chunks: 1 })) ? 1 : 0,
    why: () => `It stops, in a cycle: ${rendezvousDeadlock(orderOf("1f1b", { stages: 4, microbatches: 8, chunks: 1 })).join("; ")}. Megatron-LM posts the send down and the receive from below together; others post receives early. GPipe ${rendezvousDeadlock(orderOf("gpipe", { stages: 4, microbatches: 8, chunks: 1 })) ? "stops, too" : "runs: all its messages go one way at a time"}. On the command line: --sends rendezvous --comm-streams compute.` },
  { title: "An uneven pipeline", set: { first: "1f1b", second: "", own: { 3: { f: 1.5, i: 1.5, w: 1.5 } } }, unit: "units of time", near: 0.01,
    ask: "The last rank also has the output layer: each of its passes takes 1.5 times as long. With equal ranks the step takes 33. How long does it take now?",
    answer: view => view.length,
    why: view => `${fmt(view.length)}: the slowest rank sets the pace. It works 8 × 1.5 × 3 = 36; the pipeline fills before and drains after it in (P − 1)(F + I + W) = 9. All ranks together are idle for ${percentText(view.bubble)}. Select the times of rank 3 and move them: giving it fewer layers is worth more than another schedule.` }];

function makeExercises() {
  if (!lab) return;
  $("exercises").hidden = false;
  const pick = $("exercise"), guess = $("guess"), choices = $("guess-choice");
  EXERCISES.forEach((e, i) => pick.add(new Option(`${i + 1}. ${e.title}`, i)));
  const show = () => {
    const e = EXERCISES[pick.value];
    $("question").textContent = e.ask;
    $("revealed").textContent = "";
    guess.value = "";
    guess.hidden = Boolean(e.choices);
    choices.hidden = !e.choices;
    choices.replaceChildren(...(e.choices ?? []).map((c, i) => new Option(c, i)));
    $("guess-unit").textContent = e.choices ? "" : e.unit;
  };
  const reveal = checked => {
    const e = EXERCISES[pick.value], { view } = runOf({ ...e.set, first: e.of ?? e.set.first, second: "" }), other = e.of && runOf({ ...e.set, second: "" }).view;
    const right = e.answer(view, other), said = e.choices ? Number(choices.value) : parseFloat(guess.value);
    if (checked && Number.isNaN(said)) { $("revealed").textContent = "Type a number first, or reveal the answer."; guess.focus(); return; }
    const good = e.choices ? said === right : Math.abs(said - right) <= e.near;
    $("revealed").textContent = `${checked ? (good ? "Right. " : "Not quite. ") : ""}${e.why(view, other)}`;
    $("revealed").className = checked ? (good ? "good" : "bad") : "";
    setLab({ stages: 4, microbatches: 8, chunks: 2, f: 1, i: 1, w: 1, latency: 0, rank: -1, own: {}, limit: 0, second: "", ...e.set });
  };
  pick.onchange = show;
  $("check").onclick = () => reveal(true);
  $("reveal").onclick = () => reveal(false);
  guess.onkeydown = e => { if (e.key === "Enter") reveal(true); };
  show();
}
