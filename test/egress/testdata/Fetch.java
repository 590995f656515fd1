import java.io.FileInputStream;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Java chooses its family by a property, once: all arguments are of one. */
class Fetch {
  public static void main(String[] args) throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null);
    try (FileInputStream in = new FileInputStream("/workspace/ca.pem")) {
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext tls = SSLContext.getInstance("TLS");
    tls.init(null, trust.getTrustManagers(), null);
    HttpsURLConnection.setDefaultSSLSocketFactory(tls.getSocketFactory());
    for (int i = 0; i < args.length; i += 2) {
      String text;
      try {
        text = fetch(args[i + 1]);
      } catch (IOException e) {
        text = "failed";
      }
      System.out.println(args[i] + " " + args[i + 1] + " " + text);
    }
  }

  static String fetch(String url) throws IOException {
    HttpURLConnection c = (HttpURLConnection) URI.create(url).toURL().openConnection();
    c.setReadTimeout(60000);
    c.setRequestProperty("Connection", "close");
    try {
      return new String(c.getInputStream().readAllBytes(), "UTF-8").trim();
    } finally {
      c.disconnect();
    }
  }
}
