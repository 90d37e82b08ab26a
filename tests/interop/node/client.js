// The client program in JavaScript; see ../README.md.
"use strict";
const crypto = require("node:crypto");
const events = require("node:events");
const path = require("node:path");
const readline = require("node:readline");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const { status } = grpc;
const SECONDS = 20;
const LOOPS = 16;
const CALLS_BETWEEN_KILLS = 200;
const OPTIONS = { "grpc.enable_retries": 0, "grpc.max_receive_message_length": 8 << 20 };

const contracts = grpc.loadPackageDefinition(loader.loadSync(
    ["baton/v1/kv.proto", "baton/v1/member.proto", "grpc/health/v1/health.proto"],
    { includeDirs: [path.join(process.env.BATON_SRC, "proto")], keepCase: true, longs: Number, enums: String, defaults: true }));

class Failed extends Error {}

function check(holds, what) {
    if (!holds)
        throw new Failed(typeof what === "string" ? what : JSON.stringify(what));
}

const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has something done to the cluster. */
async function need(what) {
    console.log(JSON.stringify({ need: what }));
    return JSON.parse((await answers.next()).value);
}

function after(seconds) {
    return { deadline: Date.now() + seconds * 1000 };
}

function metadataOf(pairs) {
    const metadata = new grpc.Metadata();
    for (const [key, value] of pairs)
        metadata.add(key, value);
    return metadata;
}

/** One unary call: a promise of {answer, initial}, with the call itself as its property. */
function unary(stub, method, request, { seconds = SECONDS, metadata = [] } = {}) {
    let call;
    const done = new Promise((resolve, reject) => {
        let initial;
        call = stub[method](request, metadataOf(metadata), after(seconds),
                            (error, answer) => error ? reject(error) : resolve({ answer, initial }));
        call.on("metadata", (told) => { initial = told; });
    });
    return Object.assign(done, { call });
}

/** A stream: for await gives its messages, and throws the error with which it ends. */
function stream(stub, method, request, seconds = SECONDS) {
    return stub[method](request, new grpc.Metadata(), after(seconds));
}

async function first(messages, wanted = () => true) {
    for await (const message of messages)
        if (wanted(message))
            return message;
    throw new Failed("the stream ended");
}

/** The error with which a promise or a stream fails. */
async function failure(promise) {
    try {
        await promise;
    } catch (error) {
        if (error.code === undefined)
            throw error;
        return error;
    }
    throw new Failed("the call did not fail");
}

async function drained(messages) {
    for await (const message of messages)
        void message;
}

function trailer(error, key) {
    return error.metadata.get(key)[0];
}

async function expect(promise, wanted, reason) {
    const error = await failure(promise);
    check(error.code === wanted, `${error.code} instead of ${wanted}: ${error.details}`);
    if (reason) {
        check(trailer(error, "baton-reason") === reason, `${trailer(error, "baton-reason")} instead of ${reason}`);
        check(error.details, `${reason} without a message`);
    }
    return error;
}

class Client {
    constructor(address) {
        const plain = grpc.credentials.createInsecure();
        this.kv = new contracts.baton.v1.KvService(address, plain, OPTIONS);
        const options = { ...OPTIONS, channelOverride: this.kv.getChannel() };
        this.members = new contracts.baton.v1.ClusterMemberService(address, plain, options);
        this.health = new contracts.grpc.health.v1.Health(address, plain, options);
    }

    put(key, value = "", options = {}) {
        return unary(this.kv, "Put", { key: Buffer.from(key), value: Buffer.from(value) }, options);
    }

    async get(key) {
        return (await unary(this.kv, "Get", { key: Buffer.from(key) })).answer;
    }

    async range(request) {
        return (await unary(this.kv, "Range", request)).answer;
    }

    async count(prefix) {
        return (await this.range({ key: Buffer.from(prefix), prefix: true, count_only: true })).count;
    }

    /** Writes after where before is; whether it was. */
    async swap(key, before, after) {
        key = Buffer.from(key);
        const { answer } = await unary(this.kv, "Txn", {
            compare: [{ key, target: "TARGET_VALUE", value: Buffer.from(before) }],
            then_ops: [{ put: { key, value: Buffer.from(after) } }],
        });
        return answer.succeeded;
    }
}

const cases = {
    "unary": async (client) => {
        const put = (await client.put("unary/a", "1")).answer;
        const got = await client.get("unary/a");
        check(got.found && got.kv.value.equals(Buffer.from("1")) && got.kv.mod_revision === put.revision, got);
        await client.put("unary/b", "2");
        const listed = await client.range({ key: Buffer.from("unary/"), prefix: true, limit: 1 });
        check(listed.kvs.map((item) => String(item.key)).join() === "unary/a" && listed.more, listed);
        const rest = await client.range({ key: listed.next_key, range_end: Buffer.from("unary0") });
        check(rest.kvs.map((item) => String(item.key)).join() === "unary/b" && !rest.more, rest);
        check(await client.swap("unary/a", "1", "3") && !await client.swap("unary/a", "1", "4"), "two swaps");
        const { answer } = await unary(client.kv, "Delete", { key: Buffer.from("unary/"), prefix: true, prev_kv: true });
        check(answer.prev_kvs.map((item) => String(item.value)).join() === "3,2", answer);
        check(!(await client.get("unary/a")).found, "found what was deleted");
    },

    "metadata": async (client) => {
        const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
        const { initial } = await unary(client.kv, "Get", { key: Buffer.from("none") }, { metadata: [
            ["x-all-bin", all], ["x-all-bin", Buffer.alloc(0)], ["x-twice", "a"], ["x-twice", "b"]] });
        check(Number(initial.get("baton-epoch")[0]) > 0 && initial.get("baton-cluster")[0], initial.getMap());
    },

    "request id": async (client) => {
        const options = { metadata: [["baton-request-id", "node-interop-request"]] };
        const { answer } = await client.put("id", "1", options);
        await client.put("id", "2");
        const again = await client.put("id", "1", options);
        check(again.answer.revision === answer.revision, "another revision");
        check(again.initial.get("baton-replayed")[0] === "1", again.initial.getMap());
        check(String((await client.get("id")).kv.value) === "2", "it happened twice");
    },

    "server stream": async (client) => {
        const states = [];
        for await (const state of stream(client.members, "WatchLeader", {}))
            if (states.push(state) === 2)
                break; // this cancels the call
        const [one, two] = states;
        check(one.known && one.epoch > 0 && one.id === two.id && one.epoch === two.epoch, states);
    },

    "errors": async (client) => {
        const error = await expect(client.put(""), status.INVALID_ARGUMENT, "BAD_KEY");
        check(trailer(error, "baton-not-executed") === "1", error.metadata.getMap());
        await expect(unary(client.kv, "Delete", { key: Buffer.from("none"), must_exist: true }),
                     status.NOT_FOUND, "KEY_NOT_FOUND");
        await expect(client.put("k", "", { metadata: [["baton-request-id", "short"]] }),
                     status.INVALID_ARGUMENT, "BAD_REQUEST_ID");
        const raw = (method, bytes) => new Promise((resolve, reject) => {
            client.kv.makeUnaryRequest(`/baton.v1.KvService/${method}`, (message) => message, (message) => message,
                                       bytes, (failed, answer) => failed ? reject(failed) : resolve(answer));
        });
        await expect(raw("Fly", Buffer.alloc(0)), status.UNIMPLEMENTED, "NO_METHOD");
        await expect(raw("Get", Buffer.from([0xff, 0xff])), status.INVALID_ARGUMENT, "BAD_REQUEST");
    },

    "refusal of a follower": async () => {
        const known = await need("follower");
        const follower = new Client(known.follower);
        const error = await expect(follower.put("k"), status.UNAVAILABLE, "NOT_LEADER");
        check(trailer(error, "baton-leader") === known.leader && Number(trailer(error, "baton-epoch")) > 0 &&
              trailer(error, "baton-not-executed") === "1", error.metadata.getMap());
        follower.kv.close();
    },

    "large values": async (client) => {
        const value = crypto.randomBytes(1 << 20);
        await client.put("large", value);
        check((await client.get("large")).kv.value.equals(value), "another value");
        await expect(client.put("large", Buffer.concat([value, Buffer.from("x")])), status.INVALID_ARGUMENT, "TOO_LARGE");
    },

    "many calls on one channel": async (client) => {
        await Promise.all(Array.from({ length: 1000 }, (_, i) => client.put(`many/${i}`)));
        check(await client.count("many/") === 1000, "some are missing");
    },

    "deadline of a call": async (client) => {
        await need("pause");
        const error = await failure(client.put("late", "", { seconds: 0.3 }));
        await need("resume");
        check(error.code === status.DEADLINE_EXCEEDED, error.message);
        await client.put("late");
    },

    "deadline of a stream": async (client) => {
        await expect(drained(stream(client.members, "WatchLeader", {}, 1.5)), status.DEADLINE_EXCEEDED);
        await client.get("none");
    },

    "cancelled call": async (client) => {
        await need("pause");
        const put = client.put("cancelled");
        setImmediate(() => put.call.cancel());
        const error = await failure(put);
        await need("resume");
        check(error.code === status.CANCELLED, error.message);
        await client.put("cancelled");
    },

    "cancelled stream": async (client) => {
        const states = stream(client.members, "WatchLeader", {});
        await events.once(states, "data");
        const ended = events.once(states, "error");
        states.cancel();
        const [error] = await ended;
        check(error.code === status.CANCELLED, error.message);
        await client.get("none");
    },

    "health": async (client) => {
        for (const service of ["", "baton.v1.KvService", "baton.v1.ClusterMemberService"]) {
            const { answer } = await unary(client.health, "Check", { service });
            check(answer.status === "SERVING", `${service} ${answer.status}`);
            const watched = await first(stream(client.health, "Watch", { service }));
            check(watched.status === "SERVING", `watch of ${service}`);
        }
        await expect(unary(client.health, "Check", { service: "none" }), status.NOT_FOUND);
    },

    "stream across a kill": async (client) => {
        const states = stream(client.members, "WatchLeader", {}, 60);
        const [before] = await events.once(states, "data");
        const ended = events.once(states, "error");
        await need("kill");
        const [error] = await ended;
        check(error.code === status.UNAVAILABLE, error.message);
        const now = await first(stream(client.members, "WatchLeader", {}, 60), (state) => state.known);
        check(now.epoch > before.epoch && now.cluster_id === before.cluster_id, now);
    },

    "calls across kills": async (client) => {
        const load = new Load(client);
        await load.start();
        for (let i = 0; i < 2; i++) {
            await load.waitCalls(CALLS_BETWEEN_KILLS);
            await need("kill in calls");
            await load.waitCalls(CALLS_BETWEEN_KILLS);
        }
        await load.stop();
        check(load.errors.length === 0, `${load.errors.length} errors of ${load.calls} calls: ${load.errors[0]}`);
        check(await client.count("load/") === load.puts, "Puts are missing");
        check(Number((await client.get("counter")).kv.value) === load.swaps, `the counter is not ${load.swaps}`);
    },
};

/** Closed loops, each of a Put of a key of its own and of one step of a counter that all share. */
class Load {
    constructor(client) {
        this.client = client;
        this.calls = this.puts = this.swaps = 0;
        this.errors = [];
        this.stopping = false;
        this.counted = new events.EventEmitter();
    }

    async start() {
        await this.client.put("counter", "0");
        this.loops = Array.from({ length: LOOPS }, (_, name) => this.run(name));
    }

    async run(name) {
        for (let number = 0; !this.stopping; number++) {
            try {
                await this.client.put(`load/${name}/${number}`);
                this.puts++;
                const before = String((await this.client.get("counter")).kv.value);
                const swapped = await this.client.swap("counter", before, String(Number(before) + 1));
                this.swaps += swapped; // not in one line with await: it would add to what was before the wait
            } catch (error) {
                this.errors.push(String(error));
            }
            this.calls += 3;
            this.counted.emit("call");
        }
    }

    async waitCalls(more) {
        const signal = AbortSignal.timeout(60000);
        for (const wanted = this.calls + more; this.calls < wanted;)
            await events.once(this.counted, "call", { signal });
    }

    async stop() {
        this.stopping = true;
        await Promise.all(this.loops);
    }
}

async function main() {
    const client = new Client(process.argv[2]);
    for (const [name, run] of Object.entries(cases)) {
        let error = "";
        try {
            await run(client);
        } catch (failed) {
            error = String(failed);
        }
        console.log(JSON.stringify({ case: name, error }));
    }
    process.exit(0);
}

main();
