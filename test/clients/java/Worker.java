import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/** Works on the jobs of a queue until it gets SIGTERM: java Worker QUEUE. The server is the one of PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD. */
public class Worker {
	private static volatile boolean stopping = false;

	/** The job itself: what it writes to this database is done when the job is, exactly once. */
	private static void handle(Connection conn, String to) throws SQLException {
		if (to == null) throw new IllegalArgumentException("no address");
		try (PreparedStatement insert = conn.prepareStatement("INSERT INTO mail_sent (address) VALUES (?)")) {
			insert.setString(1, to);
			insert.execute();
		}
	}

	private static void run(Connection conn, long job, long token, String to) throws SQLException {
		try {
			conn.setAutoCommit(false);
			handle(conn, to);
			try (PreparedStatement complete = conn.prepareStatement("SELECT jobq.complete(?, ?, jsonb_build_object('sent', ?))")) {
				complete.setLong(1, job);
				complete.setLong(2, token);
				complete.setString(3, to);
				complete.execute();
			}
			conn.commit();
			conn.setAutoCommit(true);
		} catch (Exception e) {
			conn.rollback();
			conn.setAutoCommit(true);
			// When the lease was lost (SQLSTATE JQ001, in getSQLState()) somebody else has the job, and this says "lost".
			try (PreparedStatement fail = conn.prepareStatement("SELECT status FROM jobq.fail_many(?, ?, ?)")) {
				fail.setArray(1, conn.createArrayOf("bigint", new Long[] { job }));
				fail.setArray(2, conn.createArrayOf("bigint", new Long[] { token }));
				fail.setString(3, e.toString());
				ResultSet status = fail.executeQuery();
				status.next();
				System.err.println("job " + job + ": " + status.getString(1) + ": " + e);
			}
		}
	}

	private static void work(Connection conn, String queue) throws SQLException {
		try (PreparedStatement dequeue = conn.prepareStatement("SELECT job_id, token, payload ->> 'to' FROM jobq.dequeue(?, worker => 'java')");
				PreparedStatement wait = conn.prepareStatement("CALL jobq.wait(?, '2 s')")) {
			dequeue.setString(1, queue);
			wait.setString(1, queue);
			while (!stopping) {
				ResultSet job = dequeue.executeQuery();
				if (job.next()) run(conn, job.getLong(1), job.getLong(2), job.getString(3));
				else wait.execute();
			}
		}
	}

	public static void main(String[] args) throws SQLException {
		Thread main = Thread.currentThread();
		Runtime.getRuntime().addShutdownHook(new Thread(() -> {
			stopping = true;
			try {
				main.join();
			} catch (InterruptedException e) {
				main.interrupt();
			}
		}));
		// prepareThreshold=0: no prepared statements, for poolers
		String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE") + "?prepareThreshold=0";
		try (Connection conn = DriverManager.getConnection(url, System.getenv("PGUSER"), System.getenv("PGPASSWORD"))) {
			work(conn, args[0]);
		}
	}
}
