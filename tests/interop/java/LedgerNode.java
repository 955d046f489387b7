import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerServer;
import io.openmessaging.storage.dledger.entry.DLedgerEntry;
import io.openmessaging.storage.dledger.protocol.AppendEntryRequest;
import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * One of Apache's DLedger nodes. Reads commands and answers each with a line:
 * "state" (role, term, leader, end index, committed index), "append TEXT" (code and index), "dump" (term and body of each entry).
 */
public class LedgerNode {
    public static void main(String[] arguments) throws Exception {
        DLedgerConfig config = new DLedgerConfig();
        config.setGroup(arguments[0]);
        config.setPeers(arguments[1]);
        config.setSelfId(arguments[2]);
        config.setStoreBaseDir(arguments[3]);
        config.setMappedFileSizeForEntryData(Integer.parseInt(arguments[4]));
        config.setMappedFileSizeForEntryIndex(32 * 10_000);
        config.setHeartBeatTimeIntervalMs(Integer.parseInt(arguments[5]));
        config.setEnableBatchPush(Boolean.parseBoolean(arguments[6]));
        DLedgerServer server = new DLedgerServer(config);
        server.startup();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            if (line.equals("state")) {
                System.out.println("state " + server.getMemberState().getRole() + " " + server.getMemberState().currTerm() + " "
                    + server.getMemberState().getLeaderId() + " " + server.getDLedgerStore().getLedgerEndIndex() + " "
                    + server.getDLedgerStore().getCommittedIndex());
            } else if (line.startsWith("append ")) {
                AppendEntryRequest request = new AppendEntryRequest();
                request.setGroup(arguments[0]);
                request.setRemoteId(arguments[2]);
                request.setBody(line.substring(7).getBytes("UTF-8"));
                server.handleAppend(request).whenComplete((response, error) ->
                    System.out.println("appended " + response.getCode() + " " + response.getIndex()));
            } else if (line.equals("dump")) {
                StringBuilder text = new StringBuilder("dump");
                for (long index = 0; index <= server.getDLedgerStore().getLedgerEndIndex(); index++) {
                    DLedgerEntry entry = server.getDLedgerStore().get(index);
                    text.append(' ').append(entry.getTerm()).append(':').append(entry.getPos()).append(':')
                        .append(new String(entry.getBody(), "UTF-8"));
                }
                System.out.println(text);
            }
            System.out.flush();
        }
        System.exit(0);
    }
}
