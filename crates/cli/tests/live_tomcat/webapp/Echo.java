import jakarta.websocket.OnMessage;
import jakarta.websocket.server.ServerEndpoint;
import java.nio.ByteBuffer;

/** Sends back what it is sent. */
@ServerEndpoint("/echo")
public class Echo {
    @OnMessage(maxMessageSize = 1024 * 1024)
    public String text(String message) {
        return message;
    }

    @OnMessage(maxMessageSize = 1024 * 1024)
    public ByteBuffer binary(ByteBuffer message) {
        return message;
    }
}
