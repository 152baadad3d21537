import com.hierynomus.msdtyp.AccessMask;
import com.hierynomus.mserref.NtStatus;
import com.hierynomus.msfscc.FileAttributes;
import com.hierynomus.mssmb2.SMB2CreateDisposition;
import com.hierynomus.mssmb2.SMB2ShareAccess;
import com.hierynomus.mssmb2.SMBApiException;
import com.hierynomus.smbj.SMBClient;
import com.hierynomus.smbj.SmbConfig;
import com.hierynomus.smbj.auth.AuthenticationContext;
import com.hierynomus.smbj.connection.Connection;
import com.hierynomus.smbj.share.DiskEntry;
import com.hierynomus.smbj.share.DiskShare;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import jcifs.CIFSContext;
import jcifs.config.PropertyConfiguration;
import jcifs.context.BaseContext;
import jcifs.smb.NtlmPasswordAuthenticator;
import jcifs.smb.SmbException;
import jcifs.smb.SmbFile;

/** The Maven artifacts smbj and jcifs-ng as clients: smbj|jcifs PORT SHARE USER PASSWORD (see ../run.py). */
public class Peer {
  /** Nothing, one byte, around the credit and the multi-credit boundaries, and more than one request holds. */
  static final int[] SIZES = {0, 1, 65535, 65537, (1 << 20) + 3, (9 << 20) + 1};

  static int failures;

  /** What both libraries do with a share. Paths are components joined by a slash. */
  interface Client extends AutoCloseable {
    void makeDirectory(String path) throws Exception;

    void write(String path, byte[] data) throws Exception;

    byte[] read(String path) throws Exception;

    Map<String, Long> list(String path) throws Exception;

    void rename(String from, String to) throws Exception;

    void remove(String path) throws Exception;

    void removeDirectory(String path) throws Exception;

    boolean exists(String path) throws Exception;

    /** The status with which a missing file is refused. */
    long missing(String path) throws Exception;
  }

  static final class Smbj implements Client {
    final SMBClient client;
    final Connection connection;
    final DiskShare share;

    Smbj(int port, String share, String user, String password) throws Exception {
      SmbConfig config =
          SmbConfig.builder().withTimeout(60, TimeUnit.SECONDS).withEncryptData(share.equals("sealed")).build();
      client = new SMBClient(config);
      connection = client.connect("127.0.0.1", port);
      this.share = (DiskShare)
          connection.authenticate(new AuthenticationContext(user, password.toCharArray(), "")).connectShare(share);
    }

    static String windows(String path) {
      return path.replace('/', '\\');
    }

    com.hierynomus.smbj.share.File open(String path, SMB2CreateDisposition disposition) {
      return share.openFile(
          windows(path),
          EnumSet.of(AccessMask.GENERIC_READ, AccessMask.GENERIC_WRITE, AccessMask.DELETE),
          EnumSet.noneOf(FileAttributes.class),
          SMB2ShareAccess.ALL,
          disposition,
          null);
    }

    public void makeDirectory(String path) {
      share.mkdir(windows(path));
    }

    public void write(String path, byte[] data) throws Exception {
      try (com.hierynomus.smbj.share.File file = open(path, SMB2CreateDisposition.FILE_OVERWRITE_IF);
          OutputStream out = file.getOutputStream()) {
        out.write(data);
      }
    }

    public byte[] read(String path) throws Exception {
      try (com.hierynomus.smbj.share.File file = open(path, SMB2CreateDisposition.FILE_OPEN);
          InputStream in = file.getInputStream()) {
        return in.readAllBytes();
      }
    }

    public Map<String, Long> list(String path) {
      Map<String, Long> found = new TreeMap<>();
      share.list(windows(path)).forEach(entry -> {
        if (!entry.getFileName().startsWith(".")) found.put(entry.getFileName(), entry.getEndOfFile());
      });
      return found;
    }

    public void rename(String from, String to) throws Exception {
      try (DiskEntry entry = open(from, SMB2CreateDisposition.FILE_OPEN)) {
        entry.rename(windows(to), false);
      }
    }

    public void remove(String path) {
      share.rm(windows(path));
    }

    public void removeDirectory(String path) {
      share.rmdir(windows(path), true);
    }

    public boolean exists(String path) {
      return share.folderExists(windows(path));
    }

    public long missing(String path) {
      try {
        open(path, SMB2CreateDisposition.FILE_OPEN);
      } catch (SMBApiException refused) {
        return refused.getStatus() == NtStatus.STATUS_OBJECT_NAME_NOT_FOUND ? 0xC0000034L : refused.getStatusCode();
      }
      return 0;
    }

    public void close() throws Exception {
      connection.close();
      client.close();
    }
  }

  static final class Jcifs implements Client {
    final CIFSContext context;
    final String root;

    Jcifs(int port, String share, String user, String password) throws Exception {
      Properties settings = new Properties();
      settings.setProperty("jcifs.smb.client.minVersion", "SMB202");
      settings.setProperty("jcifs.smb.client.maxVersion", "SMB311");
      settings.setProperty("jcifs.smb.client.responseTimeout", "60000");
      context = new BaseContext(new PropertyConfiguration(settings))
          .withCredentials(new NtlmPasswordAuthenticator("", user, password));
      root = "smb://127.0.0.1:" + port + "/" + share + "/";
      at("").connect();
    }

    SmbFile at(String path) throws Exception {
      return new SmbFile(root + path, context);
    }

    public void makeDirectory(String path) throws Exception {
      at(path + "/").mkdir();
    }

    public void write(String path, byte[] data) throws Exception {
      try (SmbFile file = at(path);
          OutputStream out = file.getOutputStream()) {
        out.write(data);
      }
    }

    public byte[] read(String path) throws Exception {
      try (SmbFile file = at(path);
          InputStream in = file.getInputStream()) {
        return in.readAllBytes();
      }
    }

    public Map<String, Long> list(String path) throws Exception {
      Map<String, Long> found = new TreeMap<>();
      for (SmbFile file : at(path + "/").listFiles()) found.put(file.getName().replace("/", ""), file.length());
      return found;
    }

    public void rename(String from, String to) throws Exception {
      at(from).renameTo(at(to));
    }

    public void remove(String path) throws Exception {
      at(path).delete();
    }

    public void removeDirectory(String path) throws Exception {
      at(path + "/").delete();
    }

    public boolean exists(String path) throws Exception {
      return at(path + "/").exists();
    }

    public long missing(String path) throws Exception {
      try {
        read(path);
      } catch (SmbException refused) {
        return refused.getNtStatus() & 0xffffffffL;
      }
      return 0;
    }

    public void close() throws Exception {
      context.close();
    }
  }

  static void run(String name, Callable<?> body) {
    try {
      body.call();
      System.out.println("PASS " + name);
    } catch (Throwable why) {
      failures++;
      System.out.println("FAIL " + name + ": " + why.toString().replace('\n', ' '));
    }
  }

  static void same(Object found, Object wanted, String what) {
    if (!found.equals(wanted)) throw new AssertionError(what + ": wanted " + wanted + ", found " + found);
  }

  static Object roundTrip(Client client, String base, int size) throws Exception {
    byte[] data = new byte[size];
    new Random(size).nextBytes(data);
    client.write(base + "/size-" + size, data);
    same(Arrays.equals(client.read(base + "/size-" + size), data), true, "content");
    return null;
  }

  static Object listing(Client client, String base) throws Exception {
    Map<String, Long> wanted = new TreeMap<>();
    for (int size : SIZES) wanted.put("size-" + size, (long) size);
    same(client.list(base), wanted, "names and sizes");
    return null;
  }

  static Object rename(Client client, String base) throws Exception {
    client.rename(base + "/size-1", "r");
    client.rename("r", base + "/renamed");
    same(client.list(base).get("renamed"), 1L, "the size of what was renamed");
    return null;
  }

  static Object removal(Client client, String base) throws Exception {
    client.remove(base + "/renamed");
    client.removeDirectory(base);
    same(client.exists(base), false, "whether the tree is there");
    return null;
  }

  public static void main(String[] words) throws Exception {
    int port = Integer.parseInt(words[1]);
    String base = words[0];
    Client[] made = new Client[1];
    run("connect", () -> made[0] = words[0].equals("smbj")
        ? new Smbj(port, words[2], words[3], words[4])
        : new Jcifs(port, words[2], words[3], words[4]));
    Client client = made[0];
    if (client != null) {
      run("make a directory", () -> {
        client.makeDirectory(base);
        return null;
      });
      for (int size : SIZES) run(size + " bytes there and back", () -> roundTrip(client, base, size));
      run("list", () -> listing(client, base));
      run("rename", () -> rename(client, base));
      run("a missing file", () -> {
        same(client.missing(base + "/nothing"), 0xC0000034L, "status");
        return null;
      });
      run("remove a tree", () -> removal(client, base));
      run("disconnect", () -> {
        client.close();
        return null;
      });
    }
    System.exit(failures == 0 ? 0 : 1);
  }
}
