// What one process does with the module. The module is a parameter, since Node and a
// page find it in different places.

const tool = "mcp__seif__context_compass";

// later lets nothing wait for a time: a start is repeated at once, what waits in the
// outbox waits for a flush. Only the bound of a request stays.
function later(ms, work, idle = false) {
  const timer = idle ? undefined : setTimeout(work, ms < 10_000 ? 0 : ms);
  return () => clearTimeout(timer);
}

function client(module, config) {
  const told = [];
  return [new module.SeifClient({ ...config, timeout: 60_000, startWithin: 120_000, later, onTrouble: (error) => told.push(String(error)) }), told];
}

// run is one call of a model that is about to use one tool.
export async function run(module, config, task) {
  const [seif, told] = client(module, config);
  const seen = {};
  const answer = await seif.run(task, async (context) => {
    Object.assign(seen, { turn: context.turn?.id ?? "", text: context.text, problems: context.problems.map(String) });
    if (context.turn !== null) seen.queued = (await context.turn.observe(tool, "use-1")).queued;
    return "the answer";
  });
  return { ...seen, answer, told, waiting: await seif.pending() };
}

// flush is what the next process does first. The second time there is nothing left to do.
export async function flush(module, config) {
  const [seif, told] = client(module, config);
  await seif.flush();
  return { waiting: await seif.flush(), told };
}
