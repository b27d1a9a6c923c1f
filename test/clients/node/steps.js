// The steps of ../steps.txt with node-postgres. Usage: node steps.js STEPS; JOBQ_POOLED=1 behind a pooler.
'use strict';

const fs = require('fs');
const pg = require('pg');

const pooled = process.env.JOBQ_POOLED === '1';

async function connect() {
	const client = new pg.Client();
	await client.connect();
	return client;
}

// Rows as arrays of values.
async function query(client, sql, args = []) {
	return (await client.query({ text: sql, values: args, rowMode: 'array' })).rows;
}

async function value(client, sql, args) {
	return (await query(client, sql, args))[0][0];
}

function shown(v) {
	return v === null ? '-' : String(v);
}

function row(...values) {
	return [values.map(shown).join('|')];
}

// Calls

function array(text) {
	return text === '' ? [] : text.split(',').map((t) => (t === '-' ? null : t));
}

const bind = {
	text: (text) => text,
	interval: (text) => text,
	int: Number,
	bigint: (text) => text, // as they come: 64 bits do not fit into a number
	bool: (text) => text === 'true',
	// An object is sent as JSON; an array would be sent as an SQL array, and a string as it is.
	json: (text) => {
		const v = JSON.parse(text);
		return Array.isArray(v) ? JSON.stringify(v) : v;
	},
	time: (text) => new Date(text),
	texts: array,
	bigints: array,
	null: () => null,
};

function filled(text, kept) {
	return text.replace(/\{(\w+)\}/g, (_, name) => kept[name]);
}

async function call(client, step, kept) {
	const args = step.args.map(([kind, text]) => bind[kind](kind === 'json' ? text : filled(text, kept)));
	let rows;
	try {
		rows = await query(client, step.sql, args);
	} catch (error) {
		if (error.code && error.code === step.error) return ['error ' + error.code];
		throw error;
	}
	if (rows.length > 0) step.keep.forEach((name, i) => { kept[name] = shown(rows[0][i]); });
	return rows.map((r) => row(...r)[0]);
}

// Steps written out

// Until somebody waits for a job; ten seconds at most.
async function waiting(client) {
	const limit = Date.now() + 10000;
	while (!await value(client, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Extension' AND query LIKE '%dequeue%' AND state = 'active')")) {
		if (Date.now() > limit) throw new Error('nobody waits');
		await new Promise((resolve) => { setTimeout(resolve, 20); });
	}
}

async function heard(a, b, channel, queue) {
	const told = new Promise((resolve, reject) => {
		a.once('notification', resolve);
		setTimeout(() => reject(new Error('nothing heard')), 10000).unref();
	});
	await query(a, 'LISTEN ' + channel);
	await value(b, 'SELECT jobq.enqueue($1)', [queue]);
	return told;
}

const steps = {
	'own types': async (a, b) => {
		const hour = await value(a, "SELECT interval '1 hour'"); // an object, which can be sent again
		const job = await value(a, 'SELECT jobq.enqueue($1, delay => $2, priority => $3)', ['own', hour, 1000n]);
		const seconds = await value(b, 'SELECT round(extract(epoch FROM run_at - created)) FROM jobq.job($1)', [BigInt(job)]);
		await value(b, 'SELECT jobq.cancel($1)', [job]);
		return row(seconds);
	},
	'dequeue waits': async (a, b) => {
		const waits = a.query("SELECT * FROM jobq.dequeue($1, wait => '30 s')", ['own']);
		await waiting(b);
		await value(b, 'SELECT jobq.enqueue($1, $2, headers => $3)', ['own', { from: 'B' }, { h: 1 }]);
		const job = (await waits).rows[0];
		const near = Math.abs(Date.now() - job.enqueued_at.getTime()) < 60000;
		return row(job.payload.from, job.headers.h, job.name === null, near,
			await value(a, 'SELECT jobq.complete($1, $2)', [job.job_id, job.token]));
	},
	'cancel of a running query': async (a, b) => {
		let done;
		const ended = new Promise((resolve) => { done = resolve; });
		const running = new pg.Query("SELECT job_id FROM jobq.dequeue($1, wait => '60 s')", ['own'], (error) => done(error));
		a.query(running);
		await waiting(b);
		new pg.Client().cancel(a, running);
		const error = await ended;
		await value(a, 'SELECT jobq.enqueue($1)', ['own']);
		return row(error ? error.code : null, await value(a, 'SELECT jobq.complete(job_id, token) FROM jobq.dequeue($1)', ['own']));
	},
	'write and completion together': async (a, b) => {
		await value(a, 'SELECT jobq.enqueue($1)', ['own']);
		const [job, token] = (await query(a, 'SELECT job_id, token FROM jobq.dequeue($1)', ['own']))[0];
		const seen = [];
		for (const end of ['ROLLBACK', 'COMMIT']) {
			await query(a, 'BEGIN');
			await query(a, 'INSERT INTO effect VALUES ($1)', ['together']);
			await query(a, 'SELECT jobq.complete($1, $2)', [job, token]);
			await query(a, end);
			seen.push((await query(b, 'SELECT (SELECT count(*) FROM effect WHERE step = $1), state FROM jobq.job($2)', ['together', job]))[0].join(' '));
		}
		return row(...seen);
	},
	'enqueue rolled back': async (a, b) => {
		const count = "SELECT count(*) FROM jobq.jobs WHERE queue = $1 AND state = 'ready'";
		const before = await value(b, count, ['own']);
		await query(a, 'BEGIN');
		await value(a, 'SELECT jobq.enqueue($1)', ['own']);
		await query(a, 'ROLLBACK');
		return row(before, await value(b, count, ['own']));
	},
	'what an error holds': async (a) => {
		try {
			await value(a, 'SELECT jobq.enqueue($1)', ['nowhere']);
		} catch (error) {
			return row(error.code, error.message, error.hint);
		}
		return [];
	},
	'same statement, many sessions': async (a, b) => {
		const enqueue = async (client, n) => {
			for (let i = 0; i < n; i++) {
				// Directly, a prepared statement that has a name; behind a pooler there must be none.
				await client.query({ name: pooled ? undefined : 'enqueue', text: 'SELECT jobq.enqueue($1, $2, priority => $3)', values: ['own', { i }, i] });
			}
		};
		await query(b, 'BEGIN');
		await enqueue(b, 1);
		await enqueue(a, 12);
		await enqueue(b, 11);
		await query(b, 'COMMIT');
		for (let i = 0; i < 11; i++) {
			await enqueue(a, 1);
			await enqueue(b, 1);
		}
		return row(await value(a, "SELECT count(*) FROM jobq.jobs WHERE queue = $1 AND state = 'ready'", ['own']),
			await value(b, 'SELECT jobq.purge_queue($1)', ['own']));
	},
	listen: async (a, b) => row((await heard(a, b, 'jobq_heard', 'heard')).channel),
	'listen to events': async (a, b) => {
		const n = await heard(b, a, 'jobqevents_loud', 'loud');
		return row(n.channel, JSON.parse(n.payload).events.some((e) => e.event === 'waiting'));
	},
};

function readSteps(path) {
	const list = [];
	for (const line of fs.readFileSync(path, 'utf8').split('\n')) {
		const [, word, rest] = line.match(/^\t?(\S*) ?(.*)$/);
		const step = list[list.length - 1];
		if (word === '' || line.startsWith('#')) continue;
		if (!line.startsWith('\t')) {
			const direct = word === 'do' && rest.startsWith('direct ');
			list.push({ written: word === 'do', direct, name: direct ? rest.slice(7) : rest, args: [], keep: [], see: [] });
		} else if (word === 'arg') {
			step.args.push(rest.match(/^(\S+) ?(.*)$/).slice(1));
		} else if (word === 'keep') {
			step.keep = rest.split(' ');
		} else if (word === 'see') {
			step.see.push(rest);
		} else if (word === 'sql' || word === 'error') {
			step[word] = rest;
		} else if (word !== 'none') {
			throw new Error('steps: ' + line);
		}
	}
	return list;
}

async function main(path) {
	const clients = [await connect(), await connect()];
	const list = readSteps(path);
	const kept = {};
	let calls = 0;
	let bad = 0;
	console.log('# node-postgres ' + require('pg/package.json').version);
	for (const [i, step] of list.entries()) {
		if (step.direct && pooled) {
			console.log(`ok ${i + 1} - ${step.name} # SKIP needs a session of its own`);
			continue;
		}
		let seen;
		let wanted = step.error ? ['error ' + step.error] : step.see;
		try {
			seen = await (step.written ? steps[step.name](...clients) : call(clients[++calls % 2], step, kept));
			if (!step.error) wanted = step.see.map((s) => filled(s, kept));
		} catch (error) {
			seen = [String(error)];
		}
		const ok = JSON.stringify(seen) === JSON.stringify(wanted);
		console.log(`${ok ? 'ok' : 'not ok'} ${i + 1} - ${step.name}`);
		if (!ok) {
			bad++;
			console.log(`# wanted: ${wanted}\n# seen: ${seen}`);
		}
	}
	console.log(`1..${list.length}`);
	for (const client of clients) await client.end();
	process.exit(bad > 0 ? 1 : 0);
}

main(process.argv[2]).catch((error) => {
	console.error(error);
	process.exit(1);
});
