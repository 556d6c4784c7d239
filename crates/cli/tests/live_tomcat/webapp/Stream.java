import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Sends as many bytes of a known sequence as it is asked for; compares what it is sent with the same sequence. */
@WebServlet("/stream")
public class Stream extends HttpServlet {
    private static final int BLOCK = 64 * 1024;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        long left = Long.parseLong(request.getParameter("bytes"));
        response.setContentType("application/octet-stream");
        OutputStream out = response.getOutputStream();
        Sequence sequence = new Sequence();
        while (left > 0) {
            int length = (int) Math.min(left, BLOCK);
            out.write(sequence.next(), 0, length);
            left -= length;
        }
    }

    @Override
    protected void doPut(HttpServletRequest request, HttpServletResponse response) throws IOException {
        InputStream in = request.getInputStream();
        Sequence sequence = new Sequence();
        byte[] block = new byte[BLOCK];
        long bytes = 0;
        long firstWrong = -1;
        while (true) {
            int length = in.readNBytes(block, 0, BLOCK);
            if (length == 0) {
                break;
            }
            int wrong = java.util.Arrays.mismatch(block, 0, length, sequence.next(), 0, length);
            if (wrong >= 0 && firstWrong < 0) {
                firstWrong = bytes + wrong;
            }
            bytes += length;
        }
        response.setContentType("text/plain");
        response.getWriter().print("bytes=" + bytes + " first_wrong=" + firstWrong);
    }

    /** Blocks of xorshift64 (13, 7, 17), little endian, from 1. */
    private static final class Sequence {
        private final byte[] block = new byte[BLOCK];
        private long state = 1;

        byte[] next() {
            ByteBuffer buffer = ByteBuffer.wrap(block).order(ByteOrder.LITTLE_ENDIAN);
            long x = state;
            while (buffer.hasRemaining()) {
                x ^= x << 13;
                x ^= x >>> 7;
                x ^= x << 17;
                buffer.putLong(x);
            }
            state = x;
            return block;
        }
    }
}
