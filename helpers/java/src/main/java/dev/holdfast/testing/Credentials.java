package dev.holdfast.testing;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Address and credentials in a kubeconfig that Holdfast has written: each field is on a line of its own. */
final class Credentials {
    /** Beginning of a key on the curve P-256 in PKCS #8 (RFC 5958): version, algorithm and curve. */
    private static final byte[] P256 = {
        2, 1, 0, 0x30, 0x13, 6, 7, 0x2a, (byte) 0x86, 0x48, (byte) 0xce, 0x3d, 2, 1, 6, 8, 0x2a, (byte) 0x86, 0x48,
        (byte) 0xce, 0x3d, 3, 1, 7
    };

    private static final char[] NO_PASSWORD = {};

    final String url;
    final SSLContext tls;

    Credentials(String kubeconfig) {
        url = field(kubeconfig, "server");
        try {
            tls = tls(
                    certificates(decoded(kubeconfig, "certificate-authority-data")),
                    certificates(decoded(kubeconfig, "client-certificate-data")),
                    privateKey(new String(decoded(kubeconfig, "client-key-data"), StandardCharsets.US_ASCII)));
        } catch (GeneralSecurityException | java.io.IOException error) {
            throw new IllegalStateException("cannot use the credentials of the kubeconfig", error);
        }
    }

    private static SSLContext tls(
            Collection<? extends Certificate> authorities, Collection<? extends Certificate> chain, PrivateKey key)
            throws GeneralSecurityException, java.io.IOException {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        int number = 0;
        for (Certificate authority : authorities) {
            trusted.setCertificateEntry("authority-" + number++, authority);
        }
        KeyStore own = KeyStore.getInstance(KeyStore.getDefaultType());
        own.load(null, null);
        own.setKeyEntry("client", key, NO_PASSWORD, chain.toArray(new Certificate[0]));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(own, NO_PASSWORD);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    private static Collection<? extends Certificate> certificates(byte[] pem) throws GeneralSecurityException {
        return CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem));
    }

    private static PrivateKey privateKey(String pem) throws GeneralSecurityException {
        String body = pem.replaceAll("-----[^-]+-----|\\s", "");
        byte[] key = Base64.getDecoder().decode(body);
        if (pem.contains("EC PRIVATE KEY")) {
            // Java reads keys in PKCS #8 only.
            byte[] octets = element(4, key);
            ByteArrayOutputStream content = new ByteArrayOutputStream();
            content.writeBytes(P256);
            content.writeBytes(octets);
            key = element(0x30, content.toByteArray());
        }
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(key));
    }

    /** Returns an element in DER. */
    private static byte[] element(int tag, byte[] content) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(tag);
        if (content.length < 0x80) {
            out.write(content.length);
        } else if (content.length < 0x100) {
            out.write(0x81);
            out.write(content.length);
        } else {
            out.write(0x82);
            out.write(content.length >> 8);
            out.write(content.length);
        }
        out.writeBytes(content);
        return out.toByteArray();
    }

    private static byte[] decoded(String kubeconfig, String name) {
        return Base64.getDecoder().decode(field(kubeconfig, name));
    }

    private static String field(String kubeconfig, String name) {
        Matcher line = Pattern.compile("^\\s*" + name + ":\\s*(\\S+)\\s*$", Pattern.MULTILINE).matcher(kubeconfig);
        if (!line.find()) {
            throw new IllegalArgumentException("the kubeconfig has no " + name);
        }
        return line.group(1);
    }
}
