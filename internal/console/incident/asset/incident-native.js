// Whether document.modelContext is the browser's own. Defining the property is easy, and so
// is rewriting what a function says of itself; what a frame has in which no script can run
// is the browser's.

const methods = ["registerTool", "getTools", "executeTool"];

// detect returns the context, null when it is not the browser's, whether there is any, and
// what was checked. A script that ran first and imitates frames too could still pass: no
// decision hangs on it.
export function detect() {
  const checks = [];
  const check = (ok, what) => {
    checks.push({ ok, what });
    return ok;
  };
  const present = check("modelContext" in document, "document.modelContext is there");
  const context = present ? inFrame((fresh) => examine(fresh, check)) : null;
  return { present, context: checks.every((c) => c.ok) ? context : null, checks };
}

function examine(fresh, check) {
  const text = (f, name) => typeof f === "function" && fresh.Function.prototype.toString.call(f) === `function ${name}() { [native code] }`;
  const getter = Object.getOwnPropertyDescriptor(Document.prototype, "modelContext")?.get;
  check(!Object.hasOwn(document, "modelContext"), "the document itself was not given it: it has it from the platform's Document");
  check(text(getter, "get modelContext"), "its getter is native code");
  check(text(Object.getOwnPropertyDescriptor(fresh.Document.prototype, "modelContext")?.get, "get modelContext"), "a frame in which no script runs has it too");
  let context = null;
  try {
    context = getter.call(document);
  } catch {
    // no getter, or none that takes a document: the next checks say so
  }
  const platform = window.ModelContext?.prototype;
  check(context !== null && typeof context === "object" && platform !== undefined && Object.getPrototypeOf(context) === platform, "it is an object of the platform's ModelContext");
  check(text(window.ModelContext, "ModelContext"), "ModelContext is native code");
  for (const name of methods) {
    check(context !== null && !Object.hasOwn(context, name) && text(platform && Object.getOwnPropertyDescriptor(platform, name)?.value, name), `${name} is native code of ModelContext`);
  }
  return context;
}

// inFrame lends the window of an empty frame that allows no script.
function inFrame(use) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-same-origin");
  frame.title = "empty";
  frame.hidden = true;
  document.body.append(frame);
  try {
    return use(frame.contentWindow);
  } finally {
    frame.remove();
  }
}

// register adds the tools and returns the names that are listed then.
export async function register(context, tools, run) {
  for (const { name, title, description, inputSchema, annotations, ...rest } of tools) {
    await context.registerTool({ name, title, description, inputSchema, annotations, execute: (input) => run({ name, ...rest }, input) });
  }
  const listed = (await own(context)).map((tool) => tool.name);
  return tools.map((tool) => tool.name).filter((name) => listed.includes(name));
}

async function own(context) {
  return (await context.getTools()).filter((tool) => (tool.origin ?? location.origin) === location.origin);
}

// invoke calls a tool through the browser: with an object, and where it takes none with its
// JSON. It returns the result and which of the two it was.
export async function invoke(context, name, input) {
  const tool = (await own(context)).find((t) => t.name === name);
  let raw;
  let form = "an object";
  try {
    raw = await context.executeTool(tool, input);
  } catch (error) {
    if (!(error instanceof TypeError) && !String(error?.message).includes("Failed to parse input")) throw error;
    form = "a JSON string";
    raw = await context.executeTool(tool, JSON.stringify(input));
  }
  return { result: typeof raw === "string" ? JSON.parse(raw) : raw, form };
}
