// The shipped scenarios, and the one that the lab begins with.

const TEXTS = /** @type {Record<string, string>} */ (import.meta.glob("../../scenarios/*.toml", { query: "?raw", import: "default", eager: true }));

/** @type {{ name: string, description: string, text: string }[]} */
export const PRESETS = Object.entries(TEXTS).map(([path, text]) => ({
  name: path.replace(/^.*\/|\.toml$/g, ""),
  description: /^description = "(.*)"/m.exec(text)?.[1] ?? "",
  text,
}));

export const FIRST = `name = "pool"

[fabric]
topology = { kind = "spine-leaf", leaves = 4, spines = 2 }
routing = "adaptive"
link = { generation = "6", lanes = 8 }

[[hosts]]
name = "host"
count = 8
issue = { outstanding = 64 }
workload = { kind = "uniform", read_ratio = 0.67 }

[[devices]]
name = "mem"
count = 8
memory = { kind = "fixed", latency = "46 ns", bandwidth = "38.4 GB/s" }
`;
