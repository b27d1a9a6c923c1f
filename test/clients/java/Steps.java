import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.io.PrintStream;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** The steps of ../steps.txt with the JDBC driver. Usage: java Steps STEPS; JOBQ_POOLED=1 behind a pooler. */
public class Steps {
	private static final boolean POOLED = "1".equals(System.getenv("JOBQ_POOLED"));

	private static Connection connect() throws SQLException {
		String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
		return DriverManager.getConnection(POOLED ? url + "?prepareThreshold=0" : url, System.getenv("PGUSER"), System.getenv("PGPASSWORD"));
	}

	/** A parameter of a type that setObject does not tell from the value: jsonb, interval. The server finds the type. */
	private record Untyped(String text) { }

	private static void bind(PreparedStatement statement, Object... args) throws SQLException {
		int i = 0;
		for (Object arg : args) {
			i++;
			if (arg == null) statement.setNull(i, Types.NULL);
			else if (arg instanceof Untyped) statement.setObject(i, ((Untyped) arg).text(), Types.OTHER);
			else if (arg instanceof Long[]) statement.setArray(i, statement.getConnection().createArrayOf("bigint", (Long[]) arg));
			else if (arg instanceof String[]) statement.setArray(i, statement.getConnection().createArrayOf("text", (String[]) arg));
			else statement.setObject(i, arg);
		}
	}

	private static List<Object[]> rows(PreparedStatement statement) throws SQLException {
		List<Object[]> all = new ArrayList<>();
		if (!statement.execute()) return all;
		try (ResultSet result = statement.getResultSet()) {
			while (result.next()) {
				Object[] row = new Object[result.getMetaData().getColumnCount()];
				for (int i = 0; i < row.length; i++) row[i] = result.getObject(i + 1);
				all.add(row);
			}
		}
		return all;
	}

	private static List<Object[]> query(Connection conn, String sql, Object... args) throws SQLException {
		try (PreparedStatement statement = conn.prepareStatement(sql)) {
			bind(statement, args);
			return rows(statement);
		}
	}

	private static Object value(Connection conn, String sql, Object... args) throws SQLException {
		return query(conn, sql, args).get(0)[0];
	}

	private static String shown(Object v) {
		return v == null ? "-" : v.toString();
	}

	private static List<String> row(Object... values) {
		return List.of(Arrays.stream(values).map(Steps::shown).collect(Collectors.joining("|")));
	}

	// Calls

	private static class Step {
		boolean written, direct;
		String name, sql, state;
		List<String[]> args = new ArrayList<>();
		List<String> keep = new ArrayList<>(), see = new ArrayList<>();
	}

	private static Object argument(String kind, String text) {
		String[] parts = text.isEmpty() ? new String[0] : text.split(",");
		switch (kind) {
			case "text": return text;
			case "interval": case "json": return new Untyped(text);
			case "int": return Integer.valueOf(text);
			case "bigint": return Long.valueOf(text);
			case "bool": return Boolean.valueOf(text);
			case "time": return OffsetDateTime.parse(text);
			case "texts": return Arrays.stream(parts).map(t -> t.equals("-") ? null : t).toArray(String[]::new);
			case "bigints": return Arrays.stream(parts).map(Long::valueOf).toArray(Long[]::new);
			case "null": return null;
			default: throw new IllegalArgumentException("steps: arg " + kind);
		}
	}

	private static String filled(String text, Map<String, String> kept) {
		return Pattern.compile("\\{(\\w+)\\}").matcher(text).replaceAll(m -> Matcher.quoteReplacement(String.valueOf(kept.get(m.group(1)))));
	}

	private static List<String> call(Connection conn, Step step, Map<String, String> kept) throws SQLException {
		Object[] args = step.args.stream().map(a -> argument(a[0], a[0].equals("json") ? a[1] : filled(a[1], kept))).toArray();
		List<String> seen = new ArrayList<>();
		try {
			for (Object[] r : query(conn, step.sql.replaceAll("\\$\\d+", "?"), args)) {
				for (int i = 0; seen.isEmpty() && i < step.keep.size(); i++) kept.put(step.keep.get(i), shown(r[i]));
				seen.addAll(row(r));
			}
		} catch (SQLException e) {
			if (!e.getSQLState().equals(step.state)) throw e;
			return List.of("error " + e.getSQLState());
		}
		return seen;
	}

	// Steps written out

	private interface Written {
		List<String> take(Connection a, Connection b) throws Exception;
	}

	/** Until somebody waits for a job; ten seconds at most. */
	private static void waiting(Connection conn) throws Exception {
		long limit = System.nanoTime() + 10_000_000_000L;
		while (!(boolean) value(conn, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Extension'"
				+ " AND query LIKE '%dequeue%' AND state = 'active')")) {
			if (System.nanoTime() > limit) throw new IllegalStateException("nobody waits");
			Thread.sleep(20);
		}
	}

	private static List<String> ownTypes(Connection a, Connection b) throws SQLException {
		Object job = value(a, "SELECT jobq.enqueue(?, delay => ?, priority => ?)", "own", new PGInterval(0, 0, 0, 1, 0, 0), (short) 1000);
		Object seconds = value(b, "SELECT round(extract(epoch FROM run_at - created)) FROM jobq.job(?)", job);
		value(b, "SELECT jobq.cancel(?)", job);
		return row(seconds);
	}

	private static List<String> dequeueWaits(Connection a, Connection b) throws Exception {
		try (PreparedStatement dequeue = a.prepareStatement(
				"SELECT job_id, token, name, payload ->> 'from', headers ->> 'h', enqueued_at FROM jobq.dequeue(?, wait => '30 s')")) {
			dequeue.setString(1, "own");
			CompletableFuture<Object[]> found = CompletableFuture.supplyAsync(() -> {
				try (ResultSet job = dequeue.executeQuery()) {
					job.next();
					boolean near = Duration.between(job.getObject(6, OffsetDateTime.class), OffsetDateTime.now()).abs().toMinutes() < 1;
					return new Object[] { job.getLong(1), job.getLong(2), job.getString(3) == null, job.getString(4), job.getString(5), near };
				} catch (SQLException e) {
					throw new CompletionException(e);
				}
			});
			waiting(b);
			value(b, "SELECT jobq.enqueue(?, ?, headers => ?)", "own", new Untyped("{\"from\": \"B\"}"), new Untyped("{\"h\": 1}"));
			Object[] job = found.get(20, TimeUnit.SECONDS);
			return row(job[3], job[4], job[2], job[5], value(a, "SELECT jobq.complete(?, ?)", job[0], job[1]));
		}
	}

	private static List<String> cancelQuery(Connection a, Connection b) throws Exception {
		String state;
		try (PreparedStatement dequeue = a.prepareStatement("SELECT job_id FROM jobq.dequeue(?, wait => '60 s')")) {
			dequeue.setString(1, "own");
			CompletableFuture<String> ended = CompletableFuture.supplyAsync(() -> {
				try {
					dequeue.execute();
					return "not cancelled";
				} catch (SQLException e) {
					return e.getSQLState();
				}
			});
			waiting(b);
			dequeue.cancel();
			state = ended.get(20, TimeUnit.SECONDS);
		}
		value(a, "SELECT jobq.enqueue(?)", "own");
		return row(state, value(a, "SELECT jobq.complete(job_id, token) FROM jobq.dequeue(?)", "own"));
	}

	private static List<String> together(Connection a, Connection b) throws SQLException {
		value(a, "SELECT jobq.enqueue(?)", "own");
		Object[] job = query(a, "SELECT job_id, token FROM jobq.dequeue(?)", "own").get(0);
		List<String> seen = new ArrayList<>();
		for (boolean undo : new boolean[] { true, false }) {
			a.setAutoCommit(false);
			query(a, "INSERT INTO effect VALUES (?)", "together");
			value(a, "SELECT jobq.complete(?, ?)", job);
			if (undo) a.rollback();
			else a.commit();
			a.setAutoCommit(true);
			Object[] now = query(b, "SELECT (SELECT count(*) FROM effect WHERE step = ?), state FROM jobq.job(?)", "together", job[0]).get(0);
			seen.add(now[0] + " " + now[1]);
		}
		return row(seen.toArray());
	}

	private static List<String> rolledBack(Connection a, Connection b) throws SQLException {
		String count = "SELECT count(*) FROM jobq.jobs WHERE queue = ? AND state = 'ready'";
		Object before = value(b, count, "own");
		a.setAutoCommit(false);
		value(a, "SELECT jobq.enqueue(?)", "own");
		a.rollback();
		a.setAutoCommit(true);
		return row(before, value(b, count, "own"));
	}

	private static List<String> errorParts(Connection a, Connection b) throws SQLException {
		try {
			value(a, "SELECT jobq.enqueue(?)", "nowhere");
			return List.of();
		} catch (PSQLException e) {
			ServerErrorMessage m = e.getServerErrorMessage();
			return row(e.getSQLState(), m.getMessage(), m.getHint());
		}
	}

	private static List<String> manySessions(Connection a, Connection b) throws SQLException {
		// The driver prepares a statement at its fifth execution.
		String sql = "SELECT jobq.enqueue(?, ?, priority => ?)";
		try (PreparedStatement onA = a.prepareStatement(sql); PreparedStatement onB = b.prepareStatement(sql)) {
			b.setAutoCommit(false);
			for (int i = 0; i < 24; i++) {
				PreparedStatement enqueue = i == 0 || i > 12 ? onB : onA;
				bind(enqueue, "own", new Untyped("{\"i\": " + i + "}"), i);
				rows(enqueue);
			}
			b.commit();
			b.setAutoCommit(true);
			for (int i = 0; i < 22; i++) {
				PreparedStatement enqueue = i % 2 == 0 ? onA : onB;
				bind(enqueue, "own", new Untyped("{\"i\": " + i + "}"), i);
				rows(enqueue);
			}
		}
		return row(value(a, "SELECT count(*) FROM jobq.jobs WHERE queue = ? AND state = 'ready'", "own"), value(b, "SELECT jobq.purge_queue(?)", "own"));
	}

	private static PGNotification heard(Connection a, Connection b, String channel, String queue) throws SQLException {
		try (Statement listen = a.createStatement()) {
			listen.execute("LISTEN " + channel);
		}
		value(b, "SELECT jobq.enqueue(?)", queue);
		return a.unwrap(PGConnection.class).getNotifications(10000)[0];
	}

	private static List<String> listen(Connection a, Connection b) throws SQLException {
		return row(heard(a, b, "jobq_heard", "heard").getName());
	}

	private static List<String> listenEvents(Connection a, Connection b) throws SQLException {
		PGNotification n = heard(b, a, "jobqevents_loud", "loud");
		return row(n.getName(), n.getParameter().contains("\"waiting\""));
	}

	private static final Map<String, Written> WRITTEN = Map.of(
		"own types", Steps::ownTypes,
		"dequeue waits", Steps::dequeueWaits,
		"cancel of a running query", Steps::cancelQuery,
		"write and completion together", Steps::together,
		"enqueue rolled back", Steps::rolledBack,
		"what an error holds", Steps::errorParts,
		"same statement, many sessions", Steps::manySessions,
		"listen", Steps::listen,
		"listen to events", Steps::listenEvents);

	private static List<Step> readSteps(Path path) throws IOException {
		List<Step> list = new ArrayList<>();
		Step step = null;
		for (String line : Files.readAllLines(path)) {
			if (line.isEmpty() || line.startsWith("#")) continue;
			String[] words = line.strip().split(" ", 2);
			String rest = words.length > 1 ? words[1] : "";
			switch (words[0]) {
				case "call": case "do":
					step = new Step();
					step.written = words[0].equals("do");
					step.direct = rest.startsWith("direct ");
					step.name = step.direct ? rest.substring(7) : rest;
					list.add(step);
					break;
				case "sql": step.sql = rest; break;
				case "arg":
					String[] arg = rest.split(" ", 2);
					step.args.add(new String[] { arg[0], arg.length > 1 ? arg[1] : "" });
					break;
				case "keep": step.keep = List.of(rest.split(" ")); break;
				case "see": step.see.add(rest); break;
				case "error": step.state = rest; break;
				case "none": break;
				default: throw new IllegalArgumentException("steps: " + line);
			}
		}
		return list;
	}

	public static void main(String[] args) throws Exception {
		System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
		Connection[] conns = { connect(), connect() };
		List<Step> list = readSteps(Path.of(args[0]));
		Map<String, String> kept = new HashMap<>();
		int n = 0, calls = 0, bad = 0;
		System.out.println("# JDBC " + conns[0].getMetaData().getDriverVersion());
		for (Step step : list) {
			n++;
			if (step.direct && POOLED) {
				System.out.println("ok " + n + " - " + step.name + " # SKIP needs a session of its own");
				continue;
			}
			List<String> seen, wanted = step.state != null ? List.of("error " + step.state) : step.see;
			try {
				seen = step.written ? WRITTEN.get(step.name).take(conns[0], conns[1]) : call(conns[++calls % 2], step, kept);
				if (step.state == null) wanted = step.see.stream().map(s -> filled(s, kept)).toList();
			} catch (Exception e) {
				seen = List.of(e.toString());
			}
			boolean ok = seen.equals(wanted);
			System.out.println((ok ? "ok " : "not ok ") + n + " - " + step.name);
			if (!ok) {
				bad++;
				System.out.println("# wanted: " + wanted + "\n# seen: " + seen);
			}
		}
		System.out.println("1.." + list.size());
		for (Connection conn : conns) conn.close();
		System.exit(bad > 0 ? 1 : 0);
	}
}
