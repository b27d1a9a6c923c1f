// Works on the jobs of a queue until it gets SIGTERM: node worker.js QUEUE. The server is the one of PGHOST, PGDATABASE and so on.
'use strict';

const { Client } = require('pg');

let stopping = false;
process.on('SIGTERM', () => { stopping = true; });

// The job itself: what it writes to this database is done when the job is, exactly once.
async function handle(client, payload) {
	if (!payload.to) throw new Error('no address');
	await client.query('INSERT INTO mail_sent (address) VALUES ($1)', [payload.to]);
	return { sent: payload.to };
}

async function run(client, { job_id, token, payload }) {
	try {
		await client.query('BEGIN');
		const result = await handle(client, payload);
		await client.query('SELECT jobq.complete($1, $2, $3)', [job_id, token, JSON.stringify(result)]);
		await client.query('COMMIT');
	} catch (error) {
		await client.query('ROLLBACK');
		// When the lease was lost (SQLSTATE JQ001, in error.code) somebody else has the job, and this says "lost".
		const { rows } = await client.query('SELECT status FROM jobq.fail_many($1, $2, $3)', [[job_id], [token], String(error)]);
		console.error(`job ${job_id}: ${rows[0].status}: ${error}`);
	}
}

async function main(queue) {
	const client = new Client();
	await client.connect();
	while (!stopping) {
		const { rows } = await client.query("SELECT job_id, token, payload FROM jobq.dequeue($1, worker => 'node')", [queue]);
		if (rows.length > 0) await run(client, rows[0]);
		else await client.query("CALL jobq.wait($1, '2 s')", [queue]);
	}
	await client.end();
}

main(process.argv[2]).catch((error) => {
	console.error(error);
	process.exit(1);
});
